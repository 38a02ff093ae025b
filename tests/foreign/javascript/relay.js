// The relay in JavaScript: the same tools as its sisters in Python and C, so that one test holds
// for all. It is made into a component twice, with each of two engines.

import * as control from 'longshore:plugin/control@0.1.0';

const SCHEMA = JSON.stringify({
  type: 'object',
  properties: { name: { type: 'string' } },
  required: ['name'],
});

const ANSWER = JSON.stringify({
  type: 'object',
  properties: { ok: { type: 'boolean' } },
  required: ['ok'],
});

const tool = (name, execution, recovery, questions) => ({
  name,
  title: undefined,
  description: `The test of foreign plugins, \`${name}\`.`,
  inputSchema: SCHEMA,
  outputSchema: undefined,
  traits: {
    execution,
    recovery,
    cancellation: 'It stops at its next checkpoint.',
    cleanupOnCancel: false,
    cancelGraceMs: undefined,
    questions,
    ttlMs: undefined,
    pollIntervalMs: undefined,
    whenLeft: 'cancel',
  },
  annotations: { readOnly: true, destructive: undefined, idempotent: undefined, openWorld: undefined },
  icons: [],
});

const text = (value) => ({
  content: [{ tag: 'text', val: value }],
  structured: undefined,
  isError: false,
});

// Names are plain letters here, and the small engine has no TextEncoder.
const toBytes = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
const toText = (bytes) => String.fromCharCode(...bytes);

// What a hook's error carries differs between the engines.
const payload = (error) => error.payload ?? error;

function relay(name) {
  const saved = control.savedState();
  // Nothing is `undefined` with one engine and `null` with the other.
  if (saved == null) {
    control.progress('begun', 0, 2);
    control.checkpoint(toBytes(`half of ${name}`));
    control.progress('half way', 1, 2);
    // Only the next run goes on: this one waits to be killed or cancelled.
    for (;;) control.checkpoint(undefined);
  }
  const [answer] = control.requestInput([
    { key: 'go', ask: { tag: 'form', val: { message: `Hand ${name} on?`, schema: ANSWER } } },
  ]);
  const content = answer.tag === 'accept' ? answer.val : answer.tag;
  return text(`${toText(saved)}, answered ${content}`);
}

export const tools = {
  listTools: () => [
    tool('greet', 'inline', 'fail', []),
    tool('relay', 'task', 'resume', [
      { key: 'go', decides: 'whether it is handed on', allowsEffect: false, beforeTask: false },
    ]),
  ],

  callTool(tool, json) {
    const { name } = JSON.parse(json);
    if (tool === 'greet') return text(`Hello, ${name}!`);
    try {
      return relay(name);
    } catch (error) {
      const stopped = payload(error);
      if (stopped.reason == null) throw error;
      throw { tag: 'cancelled', val: `stopped: ${stopped.reason}` };
    }
  },
};
