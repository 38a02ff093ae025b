// Longshore under the official MCP conformance suite: every scenario of every revision it serves and
// of extensions. The suite itself fails on failures only; here its warnings count too, and it may
// skip only what a table below names.
//
//     node conformance.mjs [SCENARIO…]

import { spawn } from "node:child_process";
import { mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { startHost } from "./host.mjs";

/** Each with what the suite runs for it in one go: what the revision requires, or all there is. */
const REVISIONS = {
  "2026-07-28": ["--requirements", "2026-07-28"],
  "2025-11-25": ["--requirements", "2025-11-25"],
  "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
  "2025-03-26": ["--suite", "all", "--spec-version", "2025-03-26"],
};
const EXTENSION = "extension";
/** A limit for machines that do much else. */
const TIMEOUT_MS = 120_000;
/** The suite calls these tools to have a list change; the plugin that then comes or goes. */
const TRIGGERS = {
  test_trigger_tool_change: "release-gate",
  test_trigger_prompt_change: "regression-run",
};

/** Scenarios that the suite skips as a whole, and why. */
const SKIPPED = {
  "sep-2640-skills-directory": "skills are an extension that is not declared",
  "sep-2640-skills-enumeration": "skills are an extension that is not declared",
  "sep-2640-skills-manifest": "skills are an extension that is not declared",
  "tasks-status-notifications": "the suite always skips it; tests/listen.rs subscribes to tasks",
};

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const out = process.env.LONGSHORE_TEST_LOGS
  ? join(process.env.LONGSHORE_TEST_LOGS, "conformance")
  : join(here, "../../target/test-logs/conformance");

/** Runs the suite; what it printed. Its exit code is not asked: what it wrote is judged. */
function runSuite(...args) {
  return new Promise((resolve, reject) => {
    const run = spawn(process.execPath, [suite, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [run.stdout, run.stderr]) stream.on("data", (chunk) => (text += chunk));
    run.once("error", reject);
    run.once("close", () => resolve(text));
  });
}

/** The scenarios the suite has, by revision and for extensions. */
async function listed() {
  const text = await runSuite("list", "--server");
  const all = [...text.matchAll(/^ *- (\S+) \[(.*)\]$/gm)].map(([, name, of]) => ({ name, of: of.split(",") }));
  if (all.length === 0) throw new Error(`the suite lists no scenarios:\n${text}`);
  const names = (group) => all.filter(({ of }) => of.includes(group)).map(({ name }) => name);
  return Object.fromEntries([...Object.keys(REVISIONS), EXTENSION].map((group) => [group, names(group)]));
}

/** Runs scenarios of a group in one process and judges what it wrote of each. */
async function run(group, args, url) {
  const directory = join(out, [group, ...args].join(" ").replaceAll(/[^\w.-]+/g, "_"));
  await mkdir(directory, { recursive: true });
  const log = await runSuite("server", "--url", url, ...args, "-o", directory, "--timeout", String(TIMEOUT_MS));
  await writeFile(join(directory, "log.txt"), log);
  const results = [];
  for (const file of (await readdir(directory, { recursive: true })).sort()) {
    // The name of a scenario's directory ends with the time.
    const name = file.match(/server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z\/checks\.json$/)?.[1];
    if (!name) continue;
    const checks = JSON.parse(await readFile(join(directory, file), "utf8"));
    results.push({ name, group, ...judge(name, checks) });
  }
  return results;
}

function judge(name, checks) {
  const of = (status) => checks.filter((check) => check.status === status);
  const problems = checks
    .filter(({ status }) => !["SUCCESS", "INFO", "SKIPPED"].includes(status))
    .map(({ status, id, errorMessage, details }) => `${status} ${id}: ${errorMessage ?? details?.note ?? ""}`);
  const passed = of("SUCCESS").length;
  const skipped = of("SKIPPED");
  if (!(name in SKIPPED)) {
    for (const { id, details } of skipped) problems.push(`SKIPPED ${id}: ${details?.note ?? ""}`);
    if (passed === 0) problems.push("nothing was checked");
  } else if (skipped.length === 0) {
    problems.push("is no longer skipped: take it from the table");
  }
  return { passed, skipped: skipped.length, problems };
}

const away = new Set();

/** Has a plugin come or go whenever the suite triggers a change of its list. */
async function change(body, plugins) {
  for (const [trigger, plugin] of Object.entries(TRIGGERS)) {
    if (!body.includes(trigger)) continue;
    const served = join(plugins, plugin);
    const aside = join(plugins, "..", plugin);
    if (away.delete(plugin)) await rename(aside, served);
    else await rename(served, aside).then(() => away.add(plugin));
  }
}

function tell({ name, group, passed, skipped, problems }) {
  const verdict = problems.length === 0 ? "ok  " : "FAIL";
  const counts = `${String(passed).padStart(3)} checks${skipped > 0 ? `, ${skipped} skipped` : ""}`;
  console.log(`  ${verdict} ${`${group} ${name}`.padEnd(57)} ${counts}`);
  for (const problem of problems) console.log(`       ${problem}`);
}

/** Everything once, each revision in a process of its own; then what no revision requires. */
async function runAll(scenarios, url) {
  const runs = Object.entries(REVISIONS).map(([revision, args]) => run(revision, args, url));
  const results = (await Promise.all(runs)).flat();
  for (const [group, names] of Object.entries(scenarios)) {
    for (const name of names) {
      // What an extension has is required by the revision that it extends, or by none.
      if (results.some((it) => it.name === name && (it.group === group || group === EXTENSION))) continue;
      results.push(...(await runOne(group, name, url)));
    }
  }
  return results;
}

/** A scenario of an extension belongs to no revision and is refused with one. */
function runOne(group, name, url) {
  const revision = group === EXTENSION ? [] : ["--spec-version", group];
  return run(group, ["--scenario", name, ...revision], url);
}

async function runChosen(chosen, scenarios, url) {
  const results = [];
  for (const [group, names] of Object.entries(scenarios)) {
    for (const name of names.filter((it) => chosen.includes(it))) results.push(...(await runOne(group, name, url)));
  }
  return results;
}

async function main(chosen) {
  await rm(out, { recursive: true, force: true });
  const scenarios = await listed();
  const host = await startHost(["conformance", ...Object.values(TRIGGERS)], change);
  const results = await (chosen.length > 0 ? runChosen(chosen, scenarios, host.url) : runAll(scenarios, host.url));
  await writeFile(join(out, "host.txt"), host.output());
  await host.stop();

  for (const result of results) tell(result);
  const skipped = results.filter(({ name }) => name in SKIPPED);
  if (skipped.length > 0) console.log("  skipped by the suite itself:");
  for (const { name } of skipped) console.log(`       ${name}: ${SKIPPED[name]}`);
  const expected = Object.values(scenarios).flat().length;
  const missing = chosen.length > 0 ? 0 : expected - results.length;
  if (missing !== 0) console.log(`  FAIL ${missing} of ${expected} scenarios wrote no checks`);
  const failed = results.filter(({ problems }) => problems.length > 0).length;
  const checks = results.reduce((sum, { passed }) => sum + passed, 0);
  console.log(`conformance: ${results.length - failed} scenarios passed with ${checks} checks, ${failed} failed`);
  process.exitCode = failed === 0 && missing === 0 && results.length > 0 ? 0 : 1;
}

await main(process.argv.slice(2));
