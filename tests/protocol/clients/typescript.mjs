// The TypeScript clients: version 1 of the SDK, and version 2 with and without the Tasks package.
// An adapter's `connect(place, url, answer)` opens a connection; `answer` is what the user says to
// every question.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import {
  DispatchError,
  createApplicationInputHandler,
  createTaskSessionFromClient,
  resultFromTaskOutcome,
} from "@modelcontextprotocol/ext-tasks/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as HttpV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

import { Call, outcome } from "./call.mjs";
import { httpDispatch, stdioDispatch } from "./dispatch.mjs";

const VERSION = "2026-07-28";
const clientInfo = { name: "longshore-protocol-tests", version: "0.1.0" };
const capabilities = { elicitation: { form: {} } };

/** Longer than any test, and shorter than a client's own patience: a call that nobody answers ends. */
const timeout = 8_000;

/** Opened by `initialize`, which is what version 1 knows. */
export const version1 = {
  name: "TypeScript SDK v1",
  mode: "session",
  async connect(place, url, answer) {
    const client = new ClientV1(clientInfo, { capabilities });
    client.setRequestHandler(ElicitRequestSchema, () => answer);
    const transport = url ? new HttpV1(new URL(url)) : new StdioV1(place.stdio);
    // Only transports are told.
    let revision;
    const tell = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (agreed) => {
      revision = agreed;
      tell?.(agreed);
    };
    await client.connect(transport);
    const call = (params, options) => client.callTool(params, undefined, options);
    return synchronous(client, call, {
      revision,
      close: () => transport.terminateSession?.(),
    });
  },
};

/** Finds the revision out, as an application would have it do. */
export const version2 = {
  name: "TypeScript SDK v2",
  mode: "rounds",
  async connect(place, url, answer) {
    const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: "auto" } });
    client.setRequestHandler("elicitation/create", () => answer);
    await client.connect(transportV2(place, url));
    const call = (params, options) => client.callTool(params, options);
    return synchronous(client, call, { revision: client.getNegotiatedProtocolVersion() });
  },
};

/** Version 2 and the Tasks package, which leaves its requests' way to its user. */
export const version2WithTasks = {
  name: "TypeScript SDK v2 with ext-tasks",
  mode: "tasks",
  async connect(place, url, answer) {
    const client = new Client(clientInfo, {
      capabilities,
      versionNegotiation: { mode: { pin: VERSION } },
    });
    const transport = transportV2(place, url);
    const dispatch = url ? httpDispatch(url, VERSION) : stdioDispatch(transport);
    await client.connect(transport);
    const asked = [];
    const unexpected = (request) => Promise.reject(new Error(`asked for ${request.kind}`));
    const session = createTaskSessionFromClient(client, {
      endpointId: "longshore-under-test",
      rawDispatch: async (...request) => {
        try {
          return await dispatch(...request);
        } catch (error) {
          // A connection that broke says nothing of the task.
          throw new DispatchError(`not sent: ${error.message}`, true, { cause: error });
        }
      },
      v2RequestFraming: { protocolVersion: VERSION, clientInfo, clientCapabilities: capabilities },
      onInputRequest: createApplicationInputHandler({
        elicitation: (request, context) => {
          asked.push({ message: request.params.message, isOfTask: context.delivery === "task-update" });
          return answer;
        },
        sampling: unexpected,
        roots: unexpected,
      }),
    });
    const leave = async () => {
      await session.close();
      await client.close();
    };
    return {
      asked,
      session,
      revision: client.getNegotiatedProtocolVersion(),
      ...lists(client),
      call: (name, args) => executed(session.callTool(name, args)),
      resume: (reference) => executed(session.resumeTask(reference)),
      close: leave,
      leave,
    };
  },
};

function transportV2(place, url) {
  return url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport(place.stdio);
}

/** What is the same in all modes. */
function lists(client) {
  return {
    tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
    read: async (uri) => (await client.readResource({ uri })).contents[0].text,
    prompt: async (name, args) => (await client.getPrompt({ name, arguments: args })).messages[0].content.text,
    complete: async (prompt, argument) => {
      const ref = { type: "ref/prompt", name: prompt };
      return (await client.complete({ ref, argument })).completion.values;
    },
  };
}

/** A connection whose calls are answered within themselves. */
function synchronous(client, callTool, { revision, close }) {
  return {
    revision,
    ...lists(client),
    call(name, args) {
      const stop = new AbortController();
      const call = new Call(async (call) => {
        const options = {
          signal: stop.signal,
          timeout,
          onprogress: ({ message }) => call.tell(message),
        };
        return outcome(await callTool({ name, arguments: args }, options));
      });
      call.cancel = () => stop.abort("no longer wanted");
      return call;
    },
    async close() {
      await close?.();
      await client.close();
    },
    leave: () => client.close(),
  };
}

/** A call that may have become a task. */
async function executed(executing) {
  const execution = await executing;
  const call = new Call(async (call) => {
    const { outcome: ended } = await execution.settle({
      // Closing one that was handed off would cancel its task.
      close: false,
      onEvent: (event) => call.tell(event.task?.statusMessage),
    });
    return { status: ended.status, ...outcome(resultFromTaskOutcome(ended)) };
  });
  call.taskId = execution.handle?.taskId;
  call.cancel = () => execution.cancel();
  call.handOff = async () => {
    let reference;
    await execution.handoff((saved) => {
      reference = JSON.parse(JSON.stringify(saved));
    });
    // Until it has let go, closing the session would cancel the task.
    await execution.result();
    return reference;
  };
  return call;
}
