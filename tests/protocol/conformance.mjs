// Longshore under the official MCP conformance suite: every scenario of revision 2026-07-28 and of
// the Tasks extension, one by one. The suite itself fails on failures only; here its warnings and
// skips count too, unless a table below gives the reason.
//
//     node conformance.mjs [SCENARIO…]

import { spawn } from "node:child_process";
import { mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { request as forward, createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { startHost } from "./host.mjs";

const REVISION = "2026-07-28";
/** Scenarios that run at once: they mostly wait. */
const AT_ONCE = 3;
/** A limit for machines that do much else. */
const TIMEOUT_MS = 120_000;
/** The suite calls this to have the list of tools change. */
const TRIGGER = "test_trigger_tool_change";
/** The plugin that comes and goes when it does. */
const COMES_AND_GOES = "release-gate";

/** Scenarios that do not run, and why. */
const LATER = {
  "completion-complete": "plugins have no completion",
  "input-required-result-non-tool-request": "plugins have no prompts",
  "prompts-get-embedded-resource": "plugins have no prompts",
  "prompts-get-simple": "plugins have no prompts",
  "prompts-get-with-args": "plugins have no prompts",
  "prompts-get-with-image": "plugins have no prompts",
  "resources-read-binary": "plugins have no resources",
  "resources-read-text": "plugins have no resources",
  "resources-templates-read": "plugins have no resources",
  "sep-2640-skills-directory": "skills are another extension",
  "sep-2640-skills-enumeration": "skills are another extension",
  "sep-2640-skills-manifest": "skills are another extension",
  "tasks-status-notifications": "the suite always skips it; tests/mcp.rs subscribes to tasks",
};

/** Checks that need not pass in a scenario that runs, and why. */
const EXCUSED = {
  "sep-2549-resources-read-caching-hints": "plugins have no resources",
  "sep-2575-server-sends-prompts-list-changed-on-subscription": "the list of prompts never changes",
};

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const out = process.env.LONGSHORE_TEST_LOGS
  ? join(process.env.LONGSHORE_TEST_LOGS, "conformance")
  : join(here, "../../target/test-logs/conformance");

/** The suite's exit code is not asked: what it wrote is judged. */
function runSuite(args, onText) {
  return new Promise((resolve, reject) => {
    const run = spawn(process.execPath, [suite, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    run.stdout.on("data", onText);
    run.stderr.on("data", onText);
    run.once("error", reject);
    run.once("close", resolve);
  });
}

/** The scenarios the suite has for this revision and for extensions, in its order. */
async function listed() {
  let text = "";
  await runSuite(["list", "--server"], (chunk) => (text += chunk));
  return [...text.matchAll(/^ *- (\S+) \[(.*)\]$/gm)]
    .filter(([, , revisions]) => revisions.includes(REVISION) || revisions.includes("extension"))
    .map(([, name]) => name);
}

async function runScenario(name, url) {
  const directory = join(out, name);
  await mkdir(directory, { recursive: true });
  // A scenario of an extension belongs to no revision and is refused with one.
  const revision = name.startsWith("tasks-") ? [] : ["--spec-version", REVISION];
  const args = ["server", "--url", url, "--scenario", name, ...revision, "-o", directory];
  args.push("--timeout", String(TIMEOUT_MS));
  let log = "";
  const started = performance.now();
  await runSuite(args, (chunk) => (log += chunk));
  const seconds = (performance.now() - started) / 1000;
  await writeFile(join(directory, "log.txt"), log);
  const saved = (await readdir(directory, { recursive: true })).find((file) => file.endsWith("checks.json"));
  if (!saved) return { name, seconds, passed: 0, problems: [`wrote no checks: ${log.trim().split("\n").at(-1)}`] };
  const checks = JSON.parse(await readFile(join(directory, saved), "utf8"));
  return { name, seconds, ...judge(checks) };
}

function judge(checks) {
  const problems = [];
  let passed = 0;
  for (const check of checks) {
    if (check.status === "SUCCESS") passed += 1;
    else if (check.status === "INFO") continue;
    else if (check.status !== "FAILURE" && check.id in EXCUSED) continue;
    else problems.push(`${check.status} ${check.id}: ${check.errorMessage ?? check.details?.note ?? ""}`);
  }
  if (passed === 0) problems.push("nothing was checked");
  return { passed, problems };
}

/** Passes requests on to a host, and has its tools change whenever the suite triggers that. */
async function startTriggering(host) {
  const plugin = join(host.directory, COMES_AND_GOES);
  const aside = join(host.directory, "..", COMES_AND_GOES);
  let isServed = true;
  const change = async () => {
    await (isServed ? rename(plugin, aside) : rename(aside, plugin));
    isServed = !isServed;
  };
  const server = createServer(async (incoming, outgoing) => {
    const body = Buffer.concat(await Array.fromAsync(incoming));
    if (body.includes(TRIGGER)) await change();
    const to = forward(
      host.url,
      // The host checks that it is spoken to by its own name.
      { method: incoming.method, headers: { ...incoming.headers, host: new URL(host.url).host } },
      (answer) => {
        outgoing.writeHead(answer.statusCode, answer.headers);
        answer.pipe(outgoing);
      },
    );
    to.on("error", () => outgoing.destroy());
    outgoing.on("close", () => to.destroy());
    to.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, stop: () => server.close() };
}

function tell({ name, seconds, passed, problems }) {
  const verdict = problems.length === 0 ? "ok  " : "FAIL";
  console.log(`  ${verdict} ${name.padEnd(46)} ${String(passed).padStart(3)} checks ${seconds.toFixed(1).padStart(6)} s`);
  for (const problem of problems) console.log(`       ${problem}`);
}

async function main() {
  await rm(out, { recursive: true, force: true });
  const all = await listed();
  const unknown = Object.keys(LATER).filter((name) => !all.includes(name));
  if (all.length === 0 || unknown.length > 0) {
    throw new Error(`the suite lists ${all.length} scenarios and lacks: ${unknown.join(", ") || "none"}`);
  }
  const chosen = process.argv.slice(2);
  const queue = chosen.length > 0 ? [...chosen] : all.filter((name) => !(name in LATER));
  const count = queue.length;

  const host = await startHost(["conformance"]);
  const changing = await startHost(["conformance", COMES_AND_GOES]);
  const triggering = await startTriggering(changing);
  const results = [];
  const work = async () => {
    for (let name = queue.shift(); name; name = queue.shift()) {
      const url = name === "server-stateless" ? triggering.url : host.url;
      const result = await runScenario(name, url);
      tell(result);
      results.push(result);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  triggering.stop();
  await writeFile(join(out, "host.txt"), host.output() + changing.output());
  await Promise.all([host.stop(), changing.stop()]);

  const failed = results.filter(({ problems }) => problems.length > 0).length;
  if (chosen.length === 0) {
    console.log(`  not run: ${Object.keys(LATER).length} scenarios, and ${Object.keys(EXCUSED).length} checks excused`);
    for (const [name, reason] of Object.entries({ ...LATER, ...EXCUSED })) console.log(`       ${name}: ${reason}`);
  }
  const checks = results.reduce((sum, { passed }) => sum + passed, 0);
  console.log(`conformance: ${count - failed} scenarios passed with ${checks} checks, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

await main();
