// A small server on the library tmcp, over stdio.
import { ZodJsonSchemaAdapter } from '@tmcp/adapter-zod';
import { StdioTransport } from '@tmcp/transport-stdio';
import { McpServer } from 'tmcp';
import { z } from 'zod';

const about = { name: 'zoo-tmcp', version: '1.0.0' };
const server = new McpServer(about, { adapter: new ZodJsonSchemaAdapter(), capabilities: { tools: { listChanged: true } } });
const schema = z.object({ a: z.number(), b: z.number() });
server.tool({ name: 'add', description: 'Add two numbers.', schema }, async ({ a, b }) => ({
  content: [{ type: 'text', text: String(a + b) }],
}));
new StdioTransport(server).listen();
