// Longshore under the published TypeScript client and its Tasks package: what they can do, they can
// do here. Run with `node --test`.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  TaskExecutionClosedError,
  createApplicationInputHandler,
  createTaskSessionFromClient,
  resultFromTaskOutcome,
} from "@modelcontextprotocol/ext-tasks/client";

import { startHost } from "./host.mjs";

const VERSION = "2026-07-28";
const ENDPOINT = "longshore-under-test";
const clientInfo = { name: "longshore-protocol-tests", version: "0.1.0" };
const clientCapabilities = { elicitation: { form: {} } };

let host;
before(async () => {
  host = await startHost(["conformance"]);
});
after(() => host?.stop());

/** A new connection, its Tasks session and the questions that reached it. */
async function connect(t, answer = () => ({ action: "cancel" })) {
  const client = new Client(clientInfo, {
    capabilities: clientCapabilities,
    versionNegotiation: { mode: { pin: VERSION } },
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(host.url)));
  const asked = [];
  const unexpected = (request) => assert.fail(`asked for ${request.kind}`);
  const session = createTaskSessionFromClient(client, {
    endpointId: ENDPOINT,
    rawDispatch: post,
    v2RequestFraming: { protocolVersion: VERSION, clientInfo, clientCapabilities },
    onInputRequest: createApplicationInputHandler({
      elicitation: (request, context) => {
        asked.push({ ...request.params, delivery: context.delivery });
        return answer(request.params);
      },
      sampling: unexpected,
      roots: unexpected,
    }),
  });
  const close = async () => {
    await session.close();
    await client.close();
  };
  t.after(close);
  return { client, session, asked, close };
}

let lastId = 0;

/** The request path that the Tasks package leaves to its user. */
async function post(request, { signal, context } = {}) {
  const { method, params } = request;
  // The package has set some of them already, in letters of its own.
  const headers = new Headers(context?.headers);
  headers.set("content-type", "application/json");
  headers.set("accept", "application/json, text/event-stream");
  headers.set("mcp-protocol-version", VERSION);
  headers.set("mcp-method", method);
  const name = params.taskId ?? params.name;
  if (name !== undefined) headers.set("mcp-name", name);
  const body = JSON.stringify({ ...request, jsonrpc: "2.0", id: ++lastId });
  const response = await fetch(host.url, { method: "POST", signal, headers, body });
  const text = await response.text();
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
  const messages = isStream
    ? text.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5))
    : [text];
  const answer = messages.map((message) => JSON.parse(message)).find((message) => "id" in message);
  return answer.error
    ? { kind: "error", error: answer.error }
    : { kind: "result", result: answer.result };
}

const textOf = (result) => result.content.map((block) => block.text).join("");

test("the tools are listed and called", async (t) => {
  const { client } = await connect(t);
  assert.equal(client.getProtocolEra(), "modern");
  const { tools } = await client.listTools();
  assert.ok(tools.some((tool) => tool.name === "greet"));
  const result = await client.callTool({ name: "greet", arguments: { name: "Ada" } });
  assert.equal(textOf(result), "Hello, Ada!");
});

test("a call that is over at once is no task", async (t) => {
  const { session } = await connect(t);
  const execution = await session.callTool("greet", { name: "Ada" });
  assert.equal(execution.kind, "immediate");
  const { outcome } = await execution.settle();
  assert.equal(textOf(resultFromTaskOutcome(outcome)), "Hello, Ada!");
});

test("a slow call becomes a task, tells its progress and completes", async (t) => {
  const { session } = await connect(t);
  const execution = await session.callTool("slow_compute", { seconds: 3, label: "slow" });
  assert.equal(execution.kind, "task");
  const messages = new Set();
  const { outcome } = await execution.settle({
    onEvent: (event) => {
      if (event.task?.status === "working") messages.add(event.task.statusMessage);
    },
  });
  assert.equal(textOf(resultFromTaskOutcome(outcome)), "slow: computed for 3 seconds");
  const told = [...messages].filter((message) => /of 3\.0 seconds/.test(message));
  assert.ok(told.length > 0, `the status messages were ${[...messages]}`);
});

test("a task asks, is answered and completes", async (t) => {
  const accept = () => ({ action: "accept", content: { confirm: true } });
  const { session, asked } = await connect(t, accept);
  const execution = await session.callTool("confirm_delete", { filename: "a.txt" });
  assert.equal(execution.kind, "task");
  const { outcome } = await execution.settle();
  assert.equal(textOf(resultFromTaskOutcome(outcome)), "a.txt was deleted.");
  assert.deepEqual(asked.map((question) => question.delivery), ["task-update"]);
  assert.match(asked[0].message, /a\.txt/);
});

test("a question that is declined is answered", async (t) => {
  const { session } = await connect(t, () => ({ action: "decline" }));
  const execution = await session.callTool("confirm_delete", { filename: "a.txt" });
  const { outcome } = await execution.settle();
  assert.equal(textOf(resultFromTaskOutcome(outcome)), "a.txt was kept.");
});

test("a tool asks before its task begins", async (t) => {
  const accept = () => ({ action: "accept", content: { name: "Ada" } });
  const { session, asked } = await connect(t, accept);
  const execution = await session.callTool("test_tool_with_task", {});
  assert.equal(execution.kind, "task");
  const { outcome } = await execution.settle();
  assert.match(textOf(resultFromTaskOutcome(outcome)), /Ada/);
  assert.deepEqual(asked.map((question) => question.delivery), ["request-retry"]);
});

test("a task is cancelled", async (t) => {
  const { session } = await connect(t);
  const execution = await session.callTool("slow_compute", { seconds: 3600, label: "endless" });
  await execution.cancel();
  // The execution counts as cancelled once the cancel was sent; whether the task is, the host knows.
  const outcome = await session.task(execution.handle.taskId).result();
  assert.equal(outcome.status, "cancelled");
});

test("a tool's own failure is a result, a protocol error a failed task", async (t) => {
  const { session } = await connect(t);
  const failing = await (await session.callTool("failing_job", {})).settle();
  assert.equal(resultFromTaskOutcome(failing.outcome).isError, true);
  const broken = await (await session.callTool("protocol_error_job", {})).settle();
  assert.equal(broken.outcome.status, "failed");
  assert.match(broken.outcome.error.message, /broke off/);
});

test("a task is taken up again from a new connection", async (t) => {
  const first = await connect(t);
  const call = await first.session.callTool("slow_compute", { seconds: 2, label: "taken up" });
  let reference;
  await call.handoff((saved) => {
    reference = JSON.parse(JSON.stringify(saved));
  });
  // Closing a session cancels what it still drives.
  assert.ok((await call.result()).error.cause instanceof TaskExecutionClosedError);
  await first.close();

  const second = await connect(t);
  const execution = await second.session.resumeTask(reference);
  assert.equal(execution.handle.taskId, call.handle.taskId);
  const { outcome } = await execution.settle();
  assert.equal(textOf(resultFromTaskOutcome(outcome)), "taken up: computed for 2 seconds");
});

test("a task id that does not exist is refused", async (t) => {
  const { session } = await connect(t);
  await assert.rejects(session.task("no-such-task").snapshot(), /no such task/);
});
