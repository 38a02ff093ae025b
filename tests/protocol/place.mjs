// A directory with plugins and data, and the host that runs there: started, killed, started again.
// LONGSHORE and LONGSHORE_PLUGINS say where the binary and the built plugins are.

import { execFile, spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const binary = process.env.LONGSHORE ?? join(root, "target/release/longshore");
const recorder = join(root, "tests/protocol/recorder.mjs");
const built = process.env.LONGSHORE_PLUGINS ?? join(root, "target/guests/plugins");

/** Code is kept by the digest of its component, so that all hosts of all tests can share it. */
const compiled = join(built, "../compiled");

export class Place {
  #directory;
  #host;
  #port = 0;
  /** What the hosts said so far. */
  output = "";
  /** Where MCP is served, while a host runs. */
  url;

  static async make(plugins, configuration = "") {
    const place = new Place();
    place.#directory = await mkdtemp(join(tmpdir(), "longshore-protocol-"));
    for (const plugin of plugins) {
      await cp(join(built, plugin), join(place.plugins, plugin), { recursive: true });
    }
    await mkdir(place.data);
    await mkdir(compiled, { recursive: true });
    await symlink(compiled, join(place.data, "components"));
    await writeFile(place.configuration, configuration);
    return place;
  }

  get plugins() {
    return join(this.#directory, "plugins");
  }

  get data() {
    return join(this.#directory, "data");
  }

  get configuration() {
    return join(this.#directory, "longshore.toml");
  }

  /** The command line of a host here that its client starts, with a recorder around it. */
  get stdio() {
    const args = [recorder, binary, "stdio", ...this.#where];
    // Clients hand on few variables of their own.
    const { LONGSHORE_TEST_MESSAGES } = process.env;
    return { command: process.execPath, args, env: { LONGSHORE_TEST_MESSAGES: LONGSHORE_TEST_MESSAGES ?? "" } };
  }

  get #where() {
    return ["--config", this.configuration, "--data-dir", this.data, "--plugins", this.plugins];
  }

  /** Starts `longshore serve`; at the same address when it was started before. */
  async serve() {
    const args = ["serve", "--listen", `127.0.0.1:${this.#port}`, ...this.#where];
    const host = spawn(binary, args, { stdio: ["ignore", "ignore", "pipe"] });
    // A host that outlived its tests would hold up whoever waits for them.
    const kill = () => host.kill("SIGKILL");
    process.once("exit", kill);
    const ended = new Promise((resolve) => host.once("close", resolve));
    ended.then(() => process.removeListener("exit", kill));
    this.#host = { process: host, ended };
    this.url = await new Promise((resolve, reject) => {
      host.once("error", (error) => reject(new Error(`${binary} does not start: ${error.message}`)));
      host.once("exit", (code) => reject(new Error(`the host ended with ${code}:\n${this.output}`)));
      createInterface({ input: host.stderr }).on("line", (line) => {
        this.output += `${line}\n`;
        const found = line.match(/listening on (\S+)/);
        if (found) resolve(found[1]);
      });
    });
    this.#port = Number(new URL(this.url).port);
  }

  /** What the host that holds the data directory has open and under way; none when none does. */
  status() {
    return this.#command(["status", "--config", this.configuration, "--data-dir", this.data]);
  }

  /** The result of a task, for whoever has its id; none when it has none. */
  watch(task) {
    return this.#command(["task", "watch", task, "--url", this.url]);
  }

  /** What a command prints; nothing when it fails. */
  #command(args) {
    return new Promise((resolve) => {
      const ended = (error, stdout) => resolve(error ? undefined : JSON.parse(stdout));
      execFile(binary, [...args, "--json"], ended);
    });
  }

  /** Kills the host that holds the data directory, whoever started it, as a crash would. */
  async kill() {
    const { pid } = await this.status();
    process.kill(pid, "SIGKILL");
    if (this.#host) await this.#host.ended;
    this.#host = undefined;
  }

  /** Ends what was started here, and removes everything. */
  async stop() {
    if (this.#host) {
      this.#host.process.kill("SIGTERM");
      await this.#host.ended;
    }
    await rm(this.#directory, { recursive: true });
  }
}
