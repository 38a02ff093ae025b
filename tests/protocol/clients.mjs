// Longshore under published clients, each over HTTP and over stdio; a bridge is `longshore stdio` beside a
// host that serves. Run with `node --test`. A test's name is
// `<client> over <transport>: <what>`; `host/CLIENTS.md` refers to them.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { named } from "./clients/matrix.mjs";
import { pythonRounds, pythonSession, pythonTasks } from "./clients/python.mjs";
import { scenarios } from "./clients/scenarios.mjs";
import { Site } from "./clients/site.mjs";
import { version1, version2, version2WithTasks } from "./clients/typescript.mjs";

const CLIENTS = [version1, version2, version2WithTasks, pythonSession, pythonRounds, pythonTasks];

/** The ones that are tried over a bridge, too, which is the same to all: one of each era. */
const BRIDGED = [version1, version2WithTasks];

/** The tests of one client that run at once: they mostly wait. */
const AT_ONCE = 3;

/** Longer than any test takes, so that one that hangs fails. */
const PATIENCE_MS = 60_000;

const names = new Set();

for (const client of CLIENTS) {
  const bridge = BRIDGED.includes(client) ? ["a bridge"] : [];
  for (const transport of ["HTTP", "stdio", ...bridge]) {
    const name = `${client.name} over ${transport}`;
    describe(name, { concurrency: AT_ONCE }, () => {
      for (const [what, scenario] of Object.entries(scenarios(client, transport))) {
        names.add(`${name}: ${what}`);
        test(`${name}: ${what}`, { timeout: PATIENCE_MS }, async (t) => scenario(await Site.make(t, client, transport)));
      }
    });
  }
}

test("the matrix of the clients' page has every client, and no test that does not exist", async () => {
  const referred = await named();
  assert.deepEqual(referred.filter((name) => !names.has(name)), []);
  const client = (name) => name.slice(0, name.indexOf(": "));
  assert.deepEqual(new Set(referred.map(client)), new Set([...names].map(client)));
});
