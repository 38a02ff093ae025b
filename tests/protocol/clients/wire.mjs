// The network between a client and a host, which can be cut.

import { connect, createServer } from "node:net";

export class Wire {
  #server;
  #open = new Set();
  /** The host's address, over this wire. */
  url;

  static async to(url) {
    const wire = new Wire();
    const { hostname, port, pathname } = new URL(url);
    wire.#server = createServer((near) => {
      const far = connect(Number(port), hostname);
      for (const [from, to] of [[near, far], [far, near]]) {
        from.pipe(to);
        from.on("error", () => to.destroy());
        from.on("close", () => to.destroy());
        wire.#open.add(from);
        from.on("close", () => wire.#open.delete(from));
      }
    });
    await new Promise((resolve) => wire.#server.listen(0, "127.0.0.1", resolve));
    wire.url = `http://127.0.0.1:${wire.#server.address().port}${pathname}`;
    return wire;
  }

  /** Breaks every connection; new ones are let through. */
  cut() {
    for (const socket of this.#open) socket.destroy();
  }

  stop() {
    this.cut();
    this.#server.close();
  }
}
