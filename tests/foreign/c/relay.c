// The relay in C: the same tools as its sisters in JavaScript and Python, so that one test holds
// for all. Memory is never freed: an instance lives for one call.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define SCHEMA \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"pattern\":" \
    "\"^[a-z]+$\"}},\"required\":[\"name\"]}"
#define ANSWER \
    "{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"]}"

typedef exports_longshore_plugin_tools_output_t output;
typedef exports_longshore_plugin_tools_tool_error_t tool_error;

// Joins up to three texts into one that the host may take over.
static plugin_string_t join(const char *a, plugin_string_t b, const char *c) {
    plugin_string_t joined;
    size_t length = strlen(a);
    joined.len = length + b.len + strlen(c);
    joined.ptr = malloc(joined.len + 1);
    memcpy(joined.ptr, a, length);
    memcpy(joined.ptr + length, b.ptr, b.len);
    memcpy(joined.ptr + length + b.len, c, strlen(c));
    return joined;
}

static plugin_string_t text(const char *words) {
    plugin_string_t nothing = {NULL, 0};
    return join(words, nothing, "");
}

static bool is(plugin_string_t text, const char *words) {
    return text.len == strlen(words) && memcmp(text.ptr, words, text.len) == 0;
}

// The schema leaves nothing between the last two quotes but letters.
static plugin_string_t argument(plugin_string_t json) {
    plugin_string_t name = {json.ptr, json.len};
    while (name.len > 0 && json.ptr[name.len - 1] != '"') name.len--;
    if (name.len > 0) name.len--;
    size_t start = name.len;
    while (start > 0 && json.ptr[start - 1] != '"') start--;
    name.ptr = json.ptr + start;
    name.len -= start;
    return name;
}

static void describe(exports_longshore_plugin_tools_tool_t *tool, const char *name) {
    memset(tool, 0, sizeof *tool);
    tool->name = text(name);
    tool->description = join("The test of foreign plugins, `", text(name), "`.");
    tool->input_schema = text(SCHEMA);
    tool->traits.cancellation = text("It stops at its next checkpoint.");
    tool->annotations.read_only.is_some = true;
    tool->annotations.read_only.val = true;
}

void exports_longshore_plugin_tools_list_tools(exports_longshore_plugin_tools_list_tool_t *ret) {
    exports_longshore_plugin_tools_tool_t *tools = malloc(2 * sizeof *tools);
    describe(&tools[0], "greet");
    tools[0].traits.execution = LONGSHORE_PLUGIN_TYPES_EXECUTION_INLINE;
    tools[0].traits.recovery = LONGSHORE_PLUGIN_TYPES_RECOVERY_FAIL;

    describe(&tools[1], "relay");
    tools[1].traits.execution = LONGSHORE_PLUGIN_TYPES_EXECUTION_TASK;
    tools[1].traits.recovery = LONGSHORE_PLUGIN_TYPES_RECOVERY_RESUME;
    longshore_plugin_types_question_t *question = calloc(1, sizeof *question);
    question->key = text("go");
    question->decides = text("whether it is handed on");
    tools[1].traits.questions.ptr = question;
    tools[1].traits.questions.len = 1;

    ret->ptr = tools;
    ret->len = 2;
}

static bool returns(output *ret, plugin_string_t words) {
    memset(ret, 0, sizeof *ret);
    ret->content.ptr = calloc(1, sizeof *ret->content.ptr);
    ret->content.ptr->tag = LONGSHORE_PLUGIN_TYPES_CONTENT_TEXT;
    ret->content.ptr->val.text = words;
    ret->content.len = 1;
    return true;
}

static void tell(const char *words, double done) {
    plugin_string_t message = text(words);
    double total = 2;
    longshore_plugin_control_progress(&message, &done, &total);
}

// Only the next run goes on: this one waits to be killed or cancelled.
static void first_leg(plugin_string_t name, tool_error *err) {
    longshore_plugin_control_stopped_t stopped;
    tell("begun", 0);
    plugin_string_t half = join("half of ", name, "");
    plugin_list_u8_t state = {half.ptr, half.len};
    bool goes_on = longshore_plugin_control_checkpoint(&state, &stopped);
    tell("half way", 1);
    while (goes_on) goes_on = longshore_plugin_control_checkpoint(NULL, &stopped);
    err->tag = LONGSHORE_PLUGIN_TYPES_TOOL_ERROR_CANCELLED;
    err->val.cancelled.is_some = true;
    err->val.cancelled.val = join("stopped: ", stopped.reason, "");
}

static bool relay(plugin_string_t name, output *ret, tool_error *err) {
    plugin_list_u8_t saved;
    if (!longshore_plugin_control_saved_state(&saved)) {
        first_leg(name, err);
        return false;
    }
    longshore_plugin_types_input_request_t request;
    request.key = text("go");
    request.ask.tag = LONGSHORE_PLUGIN_TYPES_ASK_FORM;
    request.ask.val.form.message = join("Hand ", name, " on?");
    request.ask.val.form.schema = text(ANSWER);
    longshore_plugin_control_list_input_request_t requests = {&request, 1};
    longshore_plugin_control_list_answer_t answers;
    longshore_plugin_control_input_error_t error;
    plugin_string_t content = text("nothing");
    if (longshore_plugin_control_request_input(&requests, &answers, &error) && answers.len == 1 &&
        answers.ptr[0].tag == LONGSHORE_PLUGIN_TYPES_ANSWER_ACCEPT &&
        answers.ptr[0].val.accept.is_some)
        content = answers.ptr[0].val.accept.val;
    plugin_string_t half = {saved.ptr, saved.len};
    plugin_string_t words = join("", half, ", answered ");
    char *start = calloc(words.len + 1, 1);
    memcpy(start, words.ptr, words.len);
    return returns(ret, join(start, content, ""));
}

bool exports_longshore_plugin_tools_call_tool(plugin_string_t *name,
                                              exports_longshore_plugin_tools_json_t *arguments,
                                              output *ret, tool_error *err) {
    plugin_string_t subject = argument(*arguments);
    if (is(*name, "greet")) {
        // A guest's output belongs in the task's log and nowhere else.
        printf("greeting\n");
        return returns(ret, join("Hello, ", subject, "!"));
    }
    return relay(subject, ret, err);
}
