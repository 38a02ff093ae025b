// Stands between a client and a host and keeps every message of the host, for `schema.mjs`: before
// an HTTP endpoint, or as a program around `longshore stdio`. Where nothing is to be kept
// (LONGSHORE_TEST_MESSAGES is not set), messages just pass.
//
//     node recorder.mjs COMMAND [ARGUMENT…]

import { spawn } from "node:child_process";
import { appendFileSync, mkdirSync } from "node:fs";
import { createServer, request as forward } from "node:http";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { fileURLToPath } from "node:url";

const MODERN = "2026-07-28";
/** Those with a handshake. */
const LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const directory = process.env.LONGSHORE_TEST_MESSAGES;
const file = directory && join(directory, `client-${process.pid}.jsonl`);
if (directory) mkdirSync(directory, { recursive: true });

/** What a client and a host say to each other: in one request, in a session or over pipes. */
class Talk {
  #methods = new Map();
  #revision;

  constructor(revision) {
    this.#revision = LEGACY.includes(revision) ? revision : MODERN;
  }

  /** A message of the client, or several. */
  asked(message) {
    if (Array.isArray(message)) return message.forEach((one) => this.asked(one));
    if (message?.id !== undefined && message.method) this.#methods.set(message.id, message.method);
  }

  /** A message of the host, or several. */
  told(message) {
    if (Array.isArray(message)) message.forEach((one) => this.told(one));
    const method = message?.method === undefined ? this.#methods.get(message?.id) : undefined;
    if (method === "initialize" && message.result) this.#revision = message.result.protocolVersion;
    const line = JSON.stringify({ revision: this.#revision, method, message });
    if (file) appendFileSync(file, `${line}\n`);
  }
}

/** Hands on whole lines of text that comes in pieces. */
function lines(onLine) {
  const decoder = new StringDecoder();
  let rest = "";
  return (chunk) => {
    const whole = (rest + decoder.write(chunk)).split("\n");
    rest = whole.pop();
    for (const line of whole) onLine(line);
  };
}

/** The same address again, in front of a host; `onRequest` is told each body before the host is. */
export async function startRecorder(hostUrl, onRequest) {
  const sessions = new Map();

  const watch = (incoming, body, answer) => {
    const said = parsed(body);
    const id = incoming.headers["mcp-session-id"];
    const talk = sessions.get(id) ?? new Talk(incoming.headers["mcp-protocol-version"]);
    talk.asked(said);
    const opened = answer.headers["mcp-session-id"];
    if (opened) sessions.set(opened, talk);
    const type = answer.headers["content-type"] ?? "";
    if (type.startsWith("text/event-stream")) {
      let data = [];
      answer.on(
        "data",
        lines((line) => {
          if (line.startsWith("data:")) data.push(line.slice(5));
          if (line.trim() !== "") return;
          // An event without data tells no more than where the stream is.
          if (data.join("").trim() !== "") talk.told(JSON.parse(data.join("\n")));
          data = [];
        }),
      );
    } else if (type.startsWith("application/json")) {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("end", () => talk.told(JSON.parse(Buffer.concat(chunks))));
    }
  };

  const server = createServer(async (incoming, outgoing) => {
    // A client that dies in the middle of a request has not made one.
    const parts = await Array.fromAsync(incoming).catch(() => undefined);
    if (parts === undefined) return;
    const body = Buffer.concat(parts);
    await onRequest(body);
    const headers = { ...incoming.headers };
    // The host checks that it is spoken to by its own name, and must still see another one.
    if (headers.host === `127.0.0.1:${server.address().port}`) headers.host = new URL(hostUrl).host;
    const to = forward(
      hostUrl,
      { method: incoming.method, headers },
      (answer) => {
        outgoing.writeHead(answer.statusCode, answer.headers);
        watch(incoming, body, answer);
        answer.pipe(outgoing);
        answer.on("error", () => outgoing.destroy());
      },
    );
    to.on("error", () => outgoing.destroy());
    outgoing.on("close", () => to.destroy());
    to.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, stop };
}

/** A client's bytes need not be JSON: some tests send what is none. */
function parsed(bytes) {
  try {
    return JSON.parse(bytes);
  } catch {
    return undefined;
  }
}

/** Runs a command between this process's pipes. */
function wrap([command, ...args]) {
  const talk = new Talk(MODERN);
  const host = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const asked = lines((line) => talk.asked(parsed(line)));
  const told = lines((line) => talk.told(JSON.parse(line)));
  process.stdin.on("data", asked).pipe(host.stdin);
  host.stdout.on("data", told).pipe(process.stdout);
  // The host may be gone before its client has heard of it.
  host.stdin.on("error", () => {});
  process.stdout.on("error", () => process.stdin.destroy());
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => host.kill(signal));
  host.on("close", (code) => {
    process.exitCode = code ?? 1;
    process.stdin.destroy();
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) wrap(process.argv.slice(2));
