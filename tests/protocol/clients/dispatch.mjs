// The request path that the TypeScript Tasks package leaves to its user: a message as it is, and the
// answer to it.

let lastId = 0;

/** Each request is one POST. */
export function httpDispatch(url, version) {
  return async (request, { signal, context } = {}) => {
    const { method, params } = request;
    // The package has set some of them already, in letters of its own.
    const headers = new Headers(context?.headers);
    headers.set("content-type", "application/json");
    headers.set("accept", "application/json, text/event-stream");
    headers.set("mcp-protocol-version", version);
    headers.set("mcp-method", method);
    const name = params.taskId ?? params.name;
    if (name !== undefined) headers.set("mcp-name", name);
    const body = JSON.stringify({ ...request, jsonrpc: "2.0", id: ++lastId });
    const response = await fetch(url, { method: "POST", signal, headers, body });
    const text = await response.text();
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
    const messages = isStream
      ? text.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5))
      : [text];
    const answer = messages.map((message) => JSON.parse(message)).find((message) => "id" in message);
    return dispatched(answer);
  };
}

/** Beside the client, over its own transport: ids with a word in them are none of the client's. */
export function stdioDispatch(transport) {
  const waiting = new Map();
  // The client calls who was there before it, and then finds the message to be none of its own.
  transport.onmessage = (message) => {
    waiting.get(message.id)?.(dispatched(message));
    waiting.delete(message.id);
  };
  return (request, { signal } = {}) =>
    new Promise((resolve, reject) => {
      const id = `tasks-${++lastId}`;
      waiting.set(id, resolve);
      signal?.addEventListener("abort", () => {
        waiting.delete(id);
        reject(signal.reason);
      });
      transport.send({ ...request, jsonrpc: "2.0", id }).catch(reject);
    });
}

function dispatched(answer) {
  return answer.error
    ? { kind: "error", error: answer.error }
    : { kind: "result", result: answer.result };
}
