// A small server on the TypeScript library FastMCP, over stdio.
import { FastMCP } from 'fastmcp';
import { z } from 'zod';

const server = new FastMCP({ name: 'zoo-fastmcp-ts', version: '1.0.0' });
server.addTool({
  name: 'add',
  description: 'Add two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => String(a + b),
});
server.addResource({ uri: 'zoo://gate', name: 'gate', mimeType: 'text/plain', load: async () => ({ text: 'open' }) });
await server.start({ transportType: 'stdio' });
