// Longshore under published clients, each over HTTP and over stdio; a bridge is `longshore stdio` beside a
// host that serves. Run with `node --test`. A test's name is
// `<client> over <transport>: <what>`; `host/CLIENTS.md` refers to them.

import { describe, test } from "node:test";

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

for (const client of CLIENTS) {
  const bridge = BRIDGED.includes(client) ? ["a bridge"] : [];
  for (const transport of ["HTTP", "stdio", ...bridge]) {
    const name = `${client.name} over ${transport}`;
    describe(name, { concurrency: AT_ONCE }, () => {
      for (const [what, scenario] of Object.entries(scenarios(client, transport))) {
        test(`${name}: ${what}`, { timeout: PATIENCE_MS }, async (t) => scenario(await Site.make(t, client, transport)));
      }
    });
  }
}
