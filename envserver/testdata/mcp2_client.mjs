// The second generation of the TypeScript client of the Model Context Protocol, with its default settings and in its own version of the protocol.
// Arguments: the server.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const task = { endpoint: "vllm", instruction: "x" };

async function check(options, version) {
  const client = new Client({ name: "test", version: "1" }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2] + "/mcp")));
  assert.equal(client.getServerVersion().name, "opencode_env");
  assert.equal(client.getNegotiatedProtocolVersion(), version);
  const call = async (name, args, more) => {
    const reply = await client.callTool({ name, arguments: args }, more);
    return { failed: reply.isError ?? false, text: reply.content[0].text };
  };

  const { tools } = await client.listTools();
  assert.deepEqual(tools.find((tool) => tool.name === "run_rollout").inputSchema.required, ["instruction"]);

  const notes = [];
  const ran = await call("run_rollout", { ...task, task_id: "m" }, { onprogress: (note) => notes.push(note.message) });
  assert.ok(!ran.failed, ran.text);
  const result = JSON.parse(ran.text);
  assert.equal(result.task_id, "m");
  assert.equal(result.outcome, "completed");
  assert.ok(notes[0].startsWith("run_rollout"), String(notes));

  await assert.rejects(call("get_state", { rollout_id: 5 }), /rollout_id/);
  await assert.rejects(client.callTool({ name: "nope", arguments: {} }), /nope/);

  const id = `cancelled-${version}`;
  const stop = new AbortController();
  const cancelled = assert.rejects(call("run_rollout", { ...task, instruction: "wait", rollout_id: id, on_disconnect: "abort" }, { signal: stop.signal }));
  const current = async () => JSON.parse((await call("get_state", { rollout_id: id })).text);
  while ((await current()).status === "unknown") await sleep(50); // a call that is cancelled earlier starts none
  stop.abort("enough");
  await cancelled;
  while ((await current()).outcome !== "aborted") await sleep(50);
  await client.close();
}

await check({}, "2025-11-25");
await check({ versionNegotiation: { mode: "auto" } }, "2026-07-28");
console.log("all checks held");
