// The second generation of the TypeScript client of the Model Context Protocol on a rollout whose model answers after a long time.
// Arguments: the server, the wait of the model in seconds.
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [server, wait] = [process.argv[2], Number(process.argv[3])];
const task = {
  endpoint: "scripted", agent: "react", instruction: "Take your time.", verify: ["true"],
  agent_timeout_s: wait + 900, limits: { call_s: wait + 600 },
};

async function run(options) {
  const client = new Client({ name: "test", version: "1" }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(server + "/mcp")));
  const began = Date.now();
  const ran = await client.callTool({ name: "run_rollout", arguments: task }, { onprogress: () => {}, resetTimeoutOnProgress: true });
  const result = JSON.parse(ran.content[0].text);
  assert.equal(result.outcome, "completed", ran.content[0].text);
  assert.equal(result.reward, 1);
  assert.ok(Date.now() - began >= wait * 1000);
  await client.close();
}

await Promise.all([run({}), run({ versionNegotiation: { mode: "auto" } })]);
console.log("all checks held");
