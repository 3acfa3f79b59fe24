// The TypeScript client of the Model Context Protocol on a rollout whose model answers after a long time.
// Arguments: the server, the wait of the model in seconds.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [server, wait] = [process.argv[2], Number(process.argv[3])];
const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(server + "/mcp")));
const began = Date.now();
const ran = await client.callTool(
  {
    name: "run_rollout",
    arguments: {
      endpoint: "scripted", agent: "react", instruction: "Take your time.", verify: ["true"],
      agent_timeout_s: wait + 900, limits: { call_s: wait + 600 },
    },
  },
  undefined,
  { onprogress: () => {}, resetTimeoutOnProgress: true },
);
const result = JSON.parse(ran.content[0].text);
assert.equal(result.outcome, "completed", ran.content[0].text);
assert.equal(result.reward, 1);
assert.ok(Date.now() - began >= wait * 1000);
await client.close();
console.log("all checks held");
