// The published JSON Schema of each revision, and the schemas of the Tasks extension, over messages
// that tests have seen. The core ones are those the official conformance suite brings along (it
// checks with them what it sees itself); the extension's are its package's.
//
//     node schema.mjs DIRECTORY [WHO…]
//
// The directory holds records, one {revision, method, message} a line, in files `WHO-….jsonl`; each
// WHO must have recorded something.

import { readFile, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import Ajv from "ajv";
import Ajv2020 from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import * as tasks from "@modelcontextprotocol/ext-tasks/core/v2";

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
/** The suite does not bring the oldest revision's; the next one only added to it. */
const CHECKED_AS = { "2024-11-05": "2025-03-26" };
/** Problems of a message, and characters of it, that are told. */
const PROBLEMS_TOLD = 4;
const EXAMPLE_MAX = 2_000;

/** What the extension adds to a revision, by method. */
const TASK_RESULTS = {
  "tasks/get": tasks.GetTaskResultV2Schema,
  "tasks/update": tasks.UpdateTaskResultV2Schema,
  "tasks/cancel": tasks.CancelTaskResultV2Schema,
};
const TASK_NOTIFICATIONS = { "notifications/tasks": tasks.TaskStatusNotificationV2Schema };

/** The suite is one file, and its schemas are object literals in it. */
async function published() {
  const source = await readFile(suite, "utf8");
  const names = source.match(/\{"2025-03-26":(\w+),"2025-06-18":(\w+),"2025-11-25":(\w+),\[\w+\]:(\w+)\}/);
  if (!names) throw new Error(`${suite} has its schemas elsewhere: look at this function`);
  const revisions = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
  return revisions.map((revision, at) => [revision, corrected(literal(source, names[at + 1]))]);
}

/** Two revisions came out with bounds of numbers that had to be integers, and were mended later. */
function corrected(schema) {
  const { properties } = (schema.$defs ?? schema.definitions).NumberSchema ?? {};
  for (const bound of ["minimum", "maximum", "default"]) {
    if (properties?.[bound]?.type === "integer") properties[bound].type = "number";
  }
  return schema;
}

function literal(source, name) {
  const start = source.search(new RegExp(`[, ]${name}=\\{\\$schema:`)) + name.length + 2;
  let depth = 0;
  for (let at = start; at < source.length; at += 1) {
    const character = source[at];
    if (character === "{") depth += 1;
    if (character === "}" && --depth === 0) return new Function(`return ${source.slice(start, at + 1)}`)();
    if (character === "`" || character === '"' || character === "'") {
      while (source[++at] !== character) if (source[at] === "\\") at += 1;
    }
  }
  throw new Error(`the schema ${name} has no end`);
}

/** What a revision says of a message, by its method, its error's code or the request it answers. */
class Revision {
  #ajv;
  #definitions;
  #key;
  #compiled = new Map();
  #byMethod = new Map();
  #byCode = new Map();

  constructor(schema) {
    const options = { strict: false, allErrors: true };
    this.#ajv = schema.$schema.includes("2020-12") ? new Ajv2020(options) : new Ajv(options);
    addFormats(this.#ajv);
    this.#ajv.addFormat("byte", true);
    this.#ajv.addSchema(schema, "mcp");
    this.#key = "$defs" in schema ? "$defs" : "definitions";
    this.#definitions = schema[this.#key];
    for (const [name, definition] of Object.entries(this.#definitions)) {
      const method = definition.properties?.method?.const;
      if (method) this.#byMethod.set(method, name);
      for (const part of definition.properties?.error?.allOf ?? []) {
        const code = part.properties?.code?.const;
        if (code !== undefined) this.#byCode.set(code, name);
      }
    }
  }

  /** What is wrong with a message of the server; `method` is the request's that it answers. */
  problems(message, method) {
    // What it consists of is recorded as well, message by message.
    if (Array.isArray(message)) return this.#against("JSONRPCBatchResponse", message);
    if (message?.method !== undefined) {
      const kind = "id" in message ? "JSONRPCRequest" : "JSONRPCNotification";
      return [
        ...this.#against(this.#byMethod.get(message.method) ?? kind, message),
        ...inExtension(TASK_NOTIFICATIONS[message.method], message),
      ];
    }
    if (message?.error !== undefined) {
      // All transports allow an error without an id; two schemas say otherwise.
      if (message.id === undefined && this.#key === "definitions") message = { id: "", ...message };
      const named = this.#byCode.get(message.error?.code);
      return this.#against(named ?? this.#first("JSONRPCErrorResponse", "JSONRPCError"), message);
    }
    const response = this.#against(this.#first("JSONRPCResultResponse", "JSONRPCResponse"), message);
    return response.length > 0 ? response : this.#result(message.result, method);
  }

  #result(result, method) {
    if (result.resultType === "task") return inExtension(tasks.CreateTaskResultV2Schema, result);
    if (method in TASK_RESULTS) return inExtension(TASK_RESULTS[method], result);
    if (result.resultType === "input_required") return this.#against("InputRequiredResult", result);
    const request = this.#byMethod.get(method);
    const name = request?.replace(/Request$/, "Result");
    // A request with a plain acknowledgement has no result of its own.
    return this.#against(name in this.#definitions ? name : "Result", result);
  }

  #first(...names) {
    return names.find((name) => name in this.#definitions);
  }

  #against(name, value) {
    let validate = this.#compiled.get(name);
    if (!validate) {
      validate = this.#ajv.compile({ $ref: `mcp#/${this.#key}/${name}` });
      this.#compiled.set(name, validate);
    }
    if (validate(value)) return [];
    return validate.errors.map(({ instancePath, message }) => `${name}${instancePath} ${message}`);
  }
}

function inExtension(schema, value) {
  const parsed = schema?.safeParse(value);
  if (!parsed || parsed.success) return [];
  return parsed.error.issues.map(({ path, message }) => `${path.join("/")} ${message}`);
}

/** Counts the messages of each revision and keeps what is wrong with them, by kind. */
class Tally {
  #revisions = new Map();

  constructor(schemas) {
    for (const [name, schema] of schemas) {
      this.#revisions.set(name, { schema: new Revision(schema), count: 0, wrong: new Map() });
    }
  }

  see({ revision, method, message }) {
    // A handshake is of the revision that it ends with, not of the one it was begun with.
    const agreed = method === "initialize" ? message.result?.protocolVersion : undefined;
    const said = agreed ?? revision;
    const seen = this.#revisions.get(CHECKED_AS[said] ?? said);
    if (!seen) throw new Error(`a message is recorded under the revision ${revision}, which has no schema`);
    seen.count += 1;
    const found = seen.schema.problems(message, method);
    if (found.length === 0) return;
    const what = message?.method ?? `the answer to ${method ?? "an unknown request"}`;
    const kind = `${what}: ${found.slice(0, PROBLEMS_TOLD).join("; ")}`;
    seen.wrong.set(kind, [...(seen.wrong.get(kind) ?? []), JSON.stringify(message)]);
  }

  /** Prints the closing lines; whether every message was as published. */
  tell() {
    let isGood = true;
    for (const [name, { count, wrong }] of this.#revisions) {
      const verdict = wrong.size === 0 && count > 0 ? "ok  " : "FAIL";
      isGood &&= verdict === "ok  ";
      console.log(`  ${verdict} ${name.padEnd(46)} ${String(count).padStart(6)} messages`);
      for (const [kind, examples] of wrong) {
        console.log(`       ${kind} (${examples.length} times)`);
        console.log(`         ${examples[0].slice(0, EXAMPLE_MAX)}`);
      }
    }
    return isGood;
  }
}

async function main(directory, recorders) {
  const tally = new Tally(await published());
  const files = (await readdir(directory)).sort();
  for (const file of files) {
    const lines = (await readFile(join(directory, file), "utf8")).split("\n");
    // What comes after the last newline is nothing, or half a line of a process that was killed.
    for (const line of lines.slice(0, -1)) tally.see(JSON.parse(line));
  }
  const silent = recorders.filter((who) => !files.some((file) => file.startsWith(`${who}-`)));
  for (const who of silent) console.log(`  FAIL nothing was recorded by ${who}`);
  process.exitCode = tally.tell() && silent.length === 0 ? 0 : 1;
}

const [directory, ...recorders] = process.argv.slice(2);
await main(directory, recorders);
