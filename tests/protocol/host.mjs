// A `longshore serve` process over a directory of its own. LONGSHORE and LONGSHORE_PLUGINS say
// where the binary and the built plugins are.

import { spawn } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { startRecorder } from "./recorder.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const binary = process.env.LONGSHORE ?? join(root, "target/release/longshore");
const built = process.env.LONGSHORE_PLUGINS ?? join(root, "target/guests/plugins");

/**
 * Where MCP is served, once it is; what the host said; and how to end it. `onRequest` is told the body
 * of each request, and where the plugins are, before the host is.
 */
export async function startHost(plugins, onRequest) {
  const directory = await mkdtemp(join(tmpdir(), "longshore-protocol-"));
  const served = join(directory, "plugins");
  for (const plugin of plugins) {
    await cp(join(built, plugin), join(served, plugin), { recursive: true });
  }
  const host = spawn(
    binary,
    ["serve", "--listen", "127.0.0.1:0", "--data-dir", join(directory, "data"), "--plugins", served],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  // A host that outlived its tests would hold up whoever waits for them.
  const kill = () => host.kill("SIGKILL");
  process.once("exit", kill);
  const ended = new Promise((resolve) => host.once("close", resolve));
  let output = "";
  const url = await new Promise((resolve, reject) => {
    host.once("error", (error) => reject(new Error(`${binary} does not start: ${error.message}`)));
    host.once("exit", (code) => reject(new Error(`the host ended with ${code}:\n${output}`)));
    createInterface({ input: host.stderr }).on("line", (line) => {
      output += `${line}\n`;
      const found = line.match(/listening on (\S+)/);
      if (found) resolve(found[1]);
    });
  });
  const recorder = await startRecorder(url, (body) => onRequest?.(body, served));
  return {
    url: recorder.url,
    output: () => output,
    async stop() {
      recorder.stop();
      host.kill("SIGTERM");
      await ended;
      process.removeListener("exit", kill);
      await rm(directory, { recursive: true });
    },
  };
}
