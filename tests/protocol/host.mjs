// A `longshore serve` process over a directory of its own.

import { Place } from "./place.mjs";

/** Where MCP is served, once it is; what the host said; and how to end it. */
export async function startHost(plugins) {
  const place = await Place.make(plugins);
  await place.serve();
  return {
    url: place.url,
    directory: place.plugins,
    output: () => place.output,
    stop: () => place.stop(),
  };
}
