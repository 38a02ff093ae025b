"""The relay in Python: the same tools as its sisters in JavaScript and C, so that one test holds
for all."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import control, types

SCHEMA = json.dumps(
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
)
ANSWER = json.dumps(
    {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
)


def tool(name, execution, recovery, questions):
    return types.Tool(
        name=name,
        title=None,
        description=f"The test of foreign plugins, `{name}`.",
        input_schema=SCHEMA,
        output_schema=None,
        traits=types.Traits(
            execution=execution,
            recovery=recovery,
            cancellation="It stops at its next checkpoint.",
            cleanup_on_cancel=False,
            cancel_grace_ms=None,
            questions=questions,
            ttl_ms=None,
            poll_interval_ms=None,
            when_left=types.WhenLeft.CANCEL,
        ),
        annotations=types.Annotations(True, None, None, None),
        icons=[],
    )


def text(value):
    return types.Output([types.Content_Text(value)], None, False)


def relay(name):
    saved = control.saved_state()
    if saved is None:
        control.progress("begun", 0.0, 2.0)
        control.checkpoint(f"half of {name}".encode())
        control.progress("half way", 1.0, 2.0)
        # Only the next run goes on: this one waits to be killed or cancelled.
        while True:
            control.checkpoint(None)
    form = types.Form(f"Hand {name} on?", ANSWER)
    [answer] = control.request_input([types.InputRequest("go", types.Ask_Form(form))])
    match answer:
        case types.Answer_Accept(content):
            return text(f"{saved.decode()}, answered {content}")
        case other:
            return text(f"{saved.decode()}, answered {type(other).__name__}")


class Tools(exports.Tools):
    def list_tools(self):
        go = types.Question("go", "whether it is handed on", False, False)
        return [
            tool("greet", types.Execution.INLINE, types.Recovery.FAIL, []),
            tool("relay", types.Execution.TASK, types.Recovery.RESUME, [go]),
        ]

    def call_tool(self, name, arguments):
        subject = json.loads(arguments)["name"]
        if name == "greet":
            return text(f"Hello, {subject}!")
        try:
            return relay(subject)
        except Err as error:
            if not isinstance(error.value, control.Stopped):
                raise
            reason = f"stopped: {error.value.reason}"
            raise Err(types.ToolError_Cancelled(reason)) from error
