// The Python SDK, in each of its modes, through `client.py`. LONGSHORE_PYTHON is an interpreter that
// has what `requirements.txt` says.

import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Call, outcome } from "./call.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const python = process.env.LONGSHORE_PYTHON ?? join(here, "../../../target/tools/python/bin/python");

export const pythonSession = adapter("Python SDK, opened by initialize", "session");
export const pythonRounds = adapter("Python SDK", "rounds");
export const pythonTasks = adapter("Python SDK with Tasks", "tasks");

function adapter(name, mode) {
  return { name, mode, connect: (place, url, answer) => connect(mode, place, url, answer) };
}

async function connect(mode, place, url, answer) {
  const where = url ? [url] : [place.stdio.command, ...place.stdio.args];
  const args = [join(here, "client.py"), mode, JSON.stringify(answer), ...where];
  const env = { ...process.env, ...place.stdio.env };
  const client = spawn(python, args, { env, stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  client.stderr.on("data", (text) => (said += text));
  const ended = new Promise((resolve) => client.once("close", resolve));
  const calls = new Map();
  const asked = [];
  let lastId = 0;
  let ready;
  const revision = new Promise((resolve, reject) => {
    ready = resolve;
    client.once("error", reject);
    ended.then(() => reject(new Error(`the client ended:\n${said}`)));
  });
  // A client that was told to leave is not waited for.
  client.stdin.on("error", () => {});
  createInterface({ input: client.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.ready) return ready(message.ready);
    if (message.asked) return asked.push({ message: message.asked, isOfTask: message.isOfTask });
    calls.get(message.id)?.(message);
  });
  const tell = (command) => client.stdin.write(`${JSON.stringify(command)}\n`);

  /** Has the client do something, and follows what it tells of it. */
  function begin(command, onMessage = () => {}) {
    const id = ++lastId;
    const result = new Promise((resolve, reject) => {
      calls.set(id, (message) => {
        if ("result" in message) resolve(message.result);
        else if (message.error) reject(new Error(message.error));
        else onMessage(message);
      });
      ended.then(() => reject(new Error(`the client ended:\n${said}`)));
    });
    tell({ ...command, id });
    return { id, result };
  }

  function follow(command) {
    let created;
    const isTask = new Promise((resolve) => (created = resolve));
    let id;
    const call = new Call(async (call) => {
      const begun = begin(command, (message) => {
        if (message.task) created((call.taskId = message.task));
        else call.tell(message.told ?? undefined);
      });
      id = begun.id;
      return outcome(await begun.result);
    });
    call.cancel = async () => {
      if (mode !== "tasks") return tell({ do: "cancel", call: id });
      await begin({ do: "cancel task", task: await isTask }).result;
    };
    call.handOff = () => isTask;
    // As with the other client: what became a task is known to be one.
    const begun = mode === "tasks" ? Promise.race([isTask, call.done.catch(() => {})]) : undefined;
    return { call, begun };
  }

  await revision;
  return {
    asked,
    revision: await revision,
    tools: () => begin({ do: "tools" }).result,
    read: (uri) => begin({ do: "read", uri }).result,
    prompt: (name, args) => begin({ do: "prompt", name, arguments: args }).result,
    complete: (prompt, argument) => begin({ do: "complete", prompt, argument }).result,
    async call(name, args) {
      const { call, begun } = follow({ do: "call", name, arguments: args });
      await begun;
      return call;
    },
    resume: async (task) => follow({ do: "resume", task }).call,
    async close() {
      client.stdin.end();
      await ended;
    },
    async leave() {
      client.kill("SIGKILL");
      await ended;
    },
  };
}
