// What is tried with every client: the same list for all, and what differs by the way a client is served.
// A scenario is given the test's `Site`.

import assert from "node:assert/strict";

import { accepts } from "./site.mjs";

/** What each way of being served is, and how a client knows. */
const REVISIONS = { session: "2025-11-25", rounds: "2026-07-28", tasks: "2026-07-28" };

const HOUR = 3_600_000;

const script = (...operations) => ({ script: operations });
const says = (text) => ({ do: "say", text });
const tells = (message, done = {}) => ({ do: "progress", message, ...done });
const waits = (ms) => ({ do: "wait", ms });

/** Tells that it runs, and goes on until it is stopped. */
const endless = script(tells("under way"), waits(HOUR));

/** The scenarios of a client over a transport, by name. */
export function scenarios({ mode }, transport) {
  return { ...COMMON, ...BY_MODE[mode], ...(transport === "HTTP" ? BY_NETWORK[mode] : {}) };
}

const COMMON = {
  async "the best revision it knows is agreed on"(site) {
    const connection = await site.connect();
    assert.equal(connection.revision, REVISIONS[site.client.mode]);
  },

  async "the tools are listed"(site) {
    const connection = await site.connect();
    const tools = await connection.tools();
    assert.ok(tools.includes("script_auto"), tools);
    await connection.close();
  },

  async "a fast call is answered at once"(site) {
    const connection = await site.connect();
    const call = await connection.call("script_auto", script(says("done")));
    const result = await call.done;
    assert.deepEqual([result.text, result.isError, call.taskId], ["done", false, undefined]);
    await connection.close();
  },

  async "a tool's own failure is a result"(site) {
    const connection = await site.connect();
    const call = await connection.call("script_auto", script({ do: "fail", text: "no luck" }));
    const result = await call.done;
    assert.deepEqual([result.text, result.isError], ["no luck", true]);
  },

  async "a resource is read, a prompt had, and its argument completed"(site) {
    const connection = await site.connect();
    assert.match(await connection.read("test://template/7/data"), /Data for ID: 7/);
    await assert.rejects(connection.read("test://nothing"), /test:\/\/nothing/);
    const name = "test_prompt_with_arguments";
    const prompt = await connection.prompt(name, { arg1: "a", arg2: "b" });
    assert.equal(prompt, "Prompt with arguments: arg1='a', arg2='b'");
    await assert.rejects(connection.prompt(name, { arg1: "a" }), /arg2/);
    const values = await connection.complete(name, { name: "arg1", value: "par" });
    assert.deepEqual(values, ["paris", "park", "party"]);
  },

  async "a slow call tells how far it is"(site) {
    const connection = await site.connect();
    const slow = script(tells("1 of 2", { done: 1, total: 2 }), waits(1_500), says("done"));
    const call = await connection.call("script_auto", slow);
    await call.heard("1 of 2");
    const result = await call.done;
    assert.equal(result.text, "done");
    if (site.client.mode === "tasks") {
      assert.ok(call.taskId, "it became a task");
      assert.equal(result.meta["longshore/synchronous"], undefined);
    } else {
      // Nobody is left guessing that this was no task (I8).
      assert.match(call.told[0], /closing .* stops the tool/);
      assert.equal(result.meta["longshore/synchronous"], true);
    }
  },

  ...Object.fromEntries(
    [
      ["answered", accepts, "who: Ada"],
      ["declined", { action: "decline" }, "who: declined"],
      ["dismissed", { action: "cancel" }, "who: dismissed"],
    ].map(([what, answer, told]) => [
      `a question is ${what}`,
      async (site) => {
        const connection = await site.connect(answer);
        const asks = script({ do: "ask_all", keys: ["who"] });
        const call = await connection.call("script_auto", asks);
        const result = await call.done;
        assert.deepEqual([result.text, result.isError], [told, false]);
        assert.equal(call.taskId !== undefined, site.client.mode === "tasks");
      },
    ]),
  ),

  async "a cancel in the middle stops the tool"(site) {
    const connection = await site.connect();
    const call = await connection.call("script_auto", endless);
    await call.heard("under way");
    await call.cancel();
    await assert.rejects(call.done);
    await site.untilIdle();
    const after = await connection.call("script_auto", script(says("goes on")));
    assert.equal((await after.done).text, "goes on");
  },
};

/** A connection that ends takes a synchronous call with it. */
const SYNCHRONOUS = {
  async "a prompt asks before it is had"(site) {
    const connection = await site.connect({ action: "accept", content: { context: "a test" } });
    const prompt = await connection.prompt("test_input_required_result_prompt");
    assert.equal(prompt, "Use this context: a test");
  },

  async "a client that goes away stops its call"(site) {
    const gone = await site.connect();
    const call = await gone.call("script_auto", endless);
    await call.heard("under way");
    await gone.leave();
    await assert.rejects(call.done);
    await site.untilIdle();
    await isServed(site);
  },

  async "a host that is killed takes the call with it, and a new connection is served"(site) {
    const before = await site.connect();
    const call = await before.call("script_auto", endless);
    await call.heard("under way");
    await site.restart();
    await assert.rejects(call.done);
    await isServed(site);
  },

  async "a call that may be left goes on as the task it named"(site) {
    const leaver = await site.connect();
    const slow = script(tells("under way"), waits(2_000), says("done"));
    const call = await leaver.call("script_detach", slow);
    const [, task] = (await call.heard("goes on as task")).match(/goes on as task ([^:\s]+)/);
    await leaver.leave();
    if (!site.isServed) {
      await site.untilGone();
      await site.place.serve();
    }
    const ended = await site.place.watch(task);
    assert.equal(ended.content[0].text, "done");
  },

  async "a tool that is always a task is refused, and says what is missing"(site) {
    const connection = await site.connect();
    const call = await connection.call("script_fail", script(says("never said")));
    const words = await call.done.then((result) => result.text, (error) => error.message);
    assert.match(words, /Tasks|io\.modelcontextprotocol\/tasks/);
  },
};

const BY_MODE = {
  session: SYNCHRONOUS,
  rounds: SYNCHRONOUS,
  tasks: {
    async "a client that goes away comes back and goes on by the task's id"(site) {
      const gone = await site.connect();
      const asks = script(tells("under way"), waits(1_000), says("done"));
      const call = await gone.call("script_resume", asks);
      const reference = await call.handOff();
      await gone.leave();
      const back = await site.connect();
      assert.equal((await (await back.resume(reference)).done).text, "done");
    },

    async "a task outlives its host and is gone on with by its id"(site) {
      const before = await site.connect();
      const waitsOnce = { do: "wait_once", ms: HOUR };
      const asks = { do: "ask_all", keys: ["who"] };
      const slow = script(tells("under way"), waitsOnce, asks, says("done"));
      const call = await before.call("script_resume", slow);
      await call.heard("under way");
      const reference = await call.handOff();
      await site.restart();
      const after = await site.connect();
      assert.equal((await (await after.resume(reference)).done).text, "who: Ada\ndone");
    },

    async "a tool asks before its task begins"(site) {
      const connection = await site.connect();
      const asks = script({ do: "ask_all", keys: ["first"] }, tells("under way"), says("done"));
      const call = await connection.call("script_ask_first", asks);
      assert.equal((await call.done).text, "first: Ada\ndone");
      assert.ok(call.taskId);
      // Before there was a task, the question came with the answer to the call.
      assert.deepEqual(connection.asked, [{ message: "first?", isOfTask: false }]);
    },

    async "a protocol error of the tool is a failed task"(site) {
      const connection = await site.connect();
      const breaks = script({ do: "rpc", code: -32603, message: "broke off" });
      const call = await connection.call("script_resume", breaks);
      await assert.rejects(call.done, /broke off/);
    },

    async "a cancelled task says so"(site) {
      const connection = await site.connect();
      const call = await connection.call("script_resume", endless);
      await call.cancel();
      await site.untilIdle();
      await assert.rejects(call.done);
    },
  },
};

/** What becomes of a call when every connection to the host breaks. */
const BY_NETWORK = {
  session: {
    async "a broken connection is taken up again, and the call is answered"(site) {
      const { call } = await cutInTheMiddle(site);
      assert.equal((await call.done).text, "done");
    },
  },
  rounds: {
    async "a broken connection stops the call"(site) {
      const { call } = await cutInTheMiddle(site);
      await assert.rejects(call.done);
      await site.untilIdle();
      await isServed(site);
    },
  },
  tasks: {
    async "a broken connection is nothing to a task"(site) {
      const { call } = await cutInTheMiddle(site);
      assert.equal((await call.done).text, "done");
    },
  },
};

async function cutInTheMiddle(site) {
  const connection = await site.connect();
  const slow = script(tells("under way"), waits(2_000), says("done"));
  const call = await connection.call("script_auto", slow);
  await call.heard("under way");
  site.wire.cut();
  return { connection, call };
}

async function isServed(site) {
  const connection = await site.connect();
  const call = await connection.call("script_auto", script(says("served")));
  assert.equal((await call.done).text, "served");
}
