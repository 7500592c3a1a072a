// A client on the official TypeScript SDK: gateway_client.mjs URL [wait]. Prints a line of JSON for each step that it sees.
// With `wait`, it waits for a line on stdin after the slow call.
import { once } from 'node:events';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const tell = (step, saw) => console.log(JSON.stringify([step, saw]));
const attempt = async (step, doing) => {
  try {
    return await doing();
  } catch (error) {
    tell(step, `${error.name}: ${error.message}`);
  }
};
const options = { timeout: 8000 };
const way = new StreamableHTTPClientTransport(new URL(process.argv[2]));
const client = new Client({ name: 'gateway-client', version: '1.0.0' });

async function call(name) {
  const steps = [];
  const more = name === 'steps' ? { onprogress: ({ progress }) => steps.push(progress) } : {};
  tell('begin', name);
  const result = await attempt(name, () => client.callTool({ name }, undefined, { ...options, ...more }));
  if (result) tell(name, [result.isError ?? false, result.content[0].text.length, result.content[0].text.slice(0, 100), steps]);
}

try {
  await client.connect(way, options);
  tell('connect', [way.protocolVersion, client.getServerVersion().name]);
  const tools = await attempt('list', () => client.listTools(undefined, options));
  if (tools) tell('list', tools.tools.map((tool) => tool.name));
  await call('steps');
  await call('large');
  await call('slow');
  if (process.argv[3]) await once(process.stdin, 'data');
  if (await attempt('ping', () => client.ping(options))) tell('ping', 'ok');
  await call('steps');
  await attempt('terminate', () => way.terminateSession());
  await client.close();
  tell('end', 'ok');
  process.exit(0);
} catch (error) {
  tell('failed', `${error.name}: ${error.message}`);
  process.exit(0);
}
