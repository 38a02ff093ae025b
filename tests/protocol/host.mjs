// A `longshore serve` process over a directory of its own, with a recorder before it.

import { Place } from "./place.mjs";
import { startRecorder } from "./recorder.mjs";

/**
 * Where MCP is served, once it is; what the host said; and how to end it. `onRequest` is told the body
 * of each request, and where the plugins are, before the host is.
 */
export async function startHost(plugins, onRequest) {
  const place = await Place.make(plugins);
  await place.serve();
  const recorder = await startRecorder(place.url, (body) => onRequest?.(body, place.plugins));
  return {
    url: recorder.url,
    output: () => place.output,
    async stop() {
      recorder.stop();
      await place.stop();
    },
  };
}
