"""The Python SDK as a child process: told what to do in lines of JSON, telling what comes of it.

    client.py MODE ANSWER URL
    client.py MODE ANSWER COMMAND ARGUMENT...

MODE is `session` (opened by `initialize`), `rounds` (2026-07-28) or `tasks` (the same with Tasks,
which this SDK does not have and lets its user add). ANSWER is what the user says to every question.
"""

import json
import os
import sys
from contextvars import ContextVar
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import Field

# Longer than any test: a call that nobody answers ends.
TIMEOUT_SECONDS = 8
# How often a task is asked for over a connection that breaks.
RETRIES_MAX = 50

# The call that the running code belongs to.
current: ContextVar[int] = ContextVar("current")


def tell(**message: Any) -> None:
    print(json.dumps(message), flush=True)


class CreatedTask(types.Result):
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")


class TaskState(types.Result):
    status: str
    status_message: str | None = Field(default=None, alias="statusMessage")
    poll_interval_ms: int = Field(default=1000, alias="pollIntervalMs")
    input_requests: dict[str, Any] | None = Field(default=None, alias="inputRequests")
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class TaskParams(types.RequestParams):
    task_id: str = Field(alias="taskId")
    input_responses: dict[str, Any] | None = Field(default=None, alias="inputResponses")


class TaskRequest(types.Request[TaskParams, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """The Tasks extension, as far as a client needs it."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.session: ClientSession | None = None

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, created: CreatedTask, context: ClaimContext) -> types.CallToolResult:
        tell(id=current.get(), task=created.task_id)
        return await self.follow(context.session, created.task_id)

    async def follow(self, session: ClientSession, task_id: str) -> types.CallToolResult:
        broken = 0
        while True:
            try:
                task = await self.request(session, "tasks/get", TaskState, task_id)
            except MCPError:
                broken += 1
                if broken > RETRIES_MAX:
                    raise
                await anyio.sleep(0.1)
                continue
            if task.status_message is not None:
                tell(id=current.get(), told=task.status_message)
            if task.status == "completed":
                return types.CallToolResult.model_validate(task.result, by_name=False)
            if task.status in ("failed", "cancelled"):
                raise RuntimeError(f"the task {task.status}: {task.error}")
            if task.input_requests:
                for question in task.input_requests.values():
                    tell(asked=question["params"]["message"], isOfTask=True)
                answers = {key: self.answer for key in task.input_requests}
                await self.request(session, "tasks/update", types.EmptyResult, task_id, answers)
            else:
                await anyio.sleep(task.poll_interval_ms / 1000)

    async def request(
        self,
        session: ClientSession,
        method: str,
        result: type[Any],
        task_id: str,
        answers: dict[str, Any] | None = None,
    ) -> Any:
        params = TaskParams(taskId=task_id, inputResponses=answers)
        return await session.send_request(TaskRequest(method=method, params=params), result)


class Calls:
    """What is under way."""

    def __init__(self, client: Client, tasks: Tasks | None) -> None:
        self.client = client
        self.tasks = tasks
        self.scopes: dict[int, anyio.CancelScope] = {}

    async def do(self, number: int, command: dict[str, Any]) -> None:
        current.set(number)
        with anyio.CancelScope() as scope:
            self.scopes[number] = scope
            try:
                tell(id=number, result=await self.result(command))
            except Exception as error:
                tell(id=number, error=f"{type(error).__name__}: {error}")
        if scope.cancelled_caught:
            tell(id=number, error="cancelled")

    async def result(self, command: dict[str, Any]) -> Any:
        client = self.client
        match command["do"]:
            case "tools":
                return [tool.name for tool in (await client.list_tools()).tools]
            case "read":
                return (await client.read_resource(command["uri"])).contents[0].text
            case "prompt":
                prompt = await client.get_prompt(command["name"], command.get("arguments"))
                return prompt.messages[0].content.text
            case "complete":
                prompt = types.PromptReference(type="ref/prompt", name=command["prompt"])
                return (await client.complete(prompt, command["argument"])).completion.values
            case "call":
                result = await client.call_tool(
                    command["name"],
                    command["arguments"],
                    read_timeout_seconds=TIMEOUT_SECONDS,
                    progress_callback=self.teller(current.get()),
                )
            case "resume":
                result = await self.tasks.follow(client.session, command["task"])
            case "cancel task":
                answered = types.EmptyResult
                await self.tasks.request(client.session, "tasks/cancel", answered, command["task"])
                return None
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    def teller(self, number: int) -> ProgressFnT:
        # It may be called outside the call's own context.
        async def progress(done: float, total: float | None, message: str | None) -> None:
            tell(id=number, told=message)

        return progress


async def main(mode: str, answer: dict[str, Any], where: list[str]) -> None:
    async def answer_question(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        tell(asked=params.message, isOfTask=False)
        return types.ElicitResult.model_validate(answer)

    if where[0].startswith("http"):
        server: Any = where[0]
    else:
        server = StdioServerParameters(command=where[0], args=where[1:], env=dict(os.environ))
    tasks = Tasks(answer) if mode == "tasks" else None
    client = Client(
        server,
        mode="legacy" if mode == "session" else "auto",
        elicitation_callback=answer_question,
        extensions=[tasks] if tasks else None,
    )
    async with client, anyio.create_task_group() as group:
        tell(ready=client.protocol_version)
        calls = Calls(client, tasks)
        async for line in anyio.wrap_file(sys.stdin):
            command = json.loads(line)
            if command["do"] == "cancel":
                calls.scopes[command["call"]].cancel()
            else:
                group.start_soon(calls.do, command["id"], command)
        group.cancel_scope.cancel()


anyio.run(main, sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])
