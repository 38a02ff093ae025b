// A call under way, the same for every client: what it told, and what it came to.

export class Call {
  /** What the tool told of its progress, in order. */
  told = [];
  /** The task that the call became, if it did. */
  taskId;
  /** `{ text, isError, meta }`, or the reason why there is no result. */
  done;
  #waiting = [];

  /** `run` drives the call, which it is given, and resolves with what it comes to. */
  constructor(run) {
    this.done = run(this);
    // Whoever has no use for the result need not catch its failure.
    this.done.catch(() => {});
  }

  tell(message) {
    if (message === undefined || this.told.at(-1) === message) return;
    this.told.push(message);
    this.#waiting = this.#waiting.filter(({ text, resolve }) => {
      const isHeard = message.includes(text);
      if (isHeard) resolve(message);
      return !isHeard;
    });
  }

  /** Resolves once the tool has told something with `text` in it. */
  heard(text) {
    const told = this.told.find((message) => message.includes(text));
    if (told !== undefined) return told;
    const heard = new Promise((resolve) => this.#waiting.push({ text, resolve }));
    const ended = this.done.then((result) => {
      throw new Error(`the call ended without telling \`${text}\`: ${JSON.stringify(result)}`);
    });
    return Promise.race([heard, ended]);
  }
}

/** What every adapter makes of a `CallToolResult`. */
export function outcome(result) {
  const text = result.content.map((block) => block.text).join("");
  return { text, isError: result.isError === true, meta: result._meta ?? {} };
}
