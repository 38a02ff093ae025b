// One test's host, and one client's connections to it.

import { Place } from "../place.mjs";
import { startRecorder } from "../recorder.mjs";
import { Wire } from "./wire.mjs";

/** Answers and ends come soon. */
const CONFIGURATION = `[limits]
poll_interval_default_ms = 200
drain_timeout_ms = 500
legacy_reconnect_ms = 5000
`;

export const accepts = { action: "accept", content: { name: "Ada" } };

export class Site {
  static async make(t, client, transport) {
    const site = new Site();
    site.client = client;
    site.place = await Place.make(["script", "conformance"], CONFIGURATION);
    t.after(() => site.end());
    site.isServed = transport !== "stdio";
    if (site.isServed) await site.place.serve();
    // Without an address the client starts its host, which is a bridge beside one that serves.
    if (transport === "HTTP") {
      site.recorder = await startRecorder(site.place.url, () => {});
      site.wire = await Wire.to(site.recorder.url);
    }
    return site;
  }

  connections = [];

  async connect(answer = accepts) {
    const connection = await this.client.connect(this.place, this.wire?.url, answer);
    this.connections.push(connection);
    return connection;
  }

  /** Kills the host, and has another one take its place. */
  async restart() {
    await this.place.kill();
    if (this.isServed) await this.place.serve();
  }

  /** Resolves when the host has nothing under way, or is gone. */
  async untilIdle() {
    for (;;) {
      const status = await this.place.status();
      if (!status || status.calls + status.runs + status.legacyCalls === 0) return;
    }
  }

  /** Resolves when no host holds the data directory. */
  async untilGone() {
    while (await this.place.status());
  }

  async end() {
    // What a test has left behind in its connections is no matter of the next one's.
    for (const connection of this.connections) await connection.leave().catch(() => {});
    this.wire?.stop();
    this.recorder?.stop();
    await this.place.stop();
  }
}
