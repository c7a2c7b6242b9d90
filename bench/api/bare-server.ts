// The yardstick: Fastify with one handler per path that does nothing but JSON.stringify on rows it holds.
// Arguments: certificate file, key file, file with { path: value }. Prints its port.
import { readFileSync } from "node:fs";
import { fastify } from "fastify";

const [certFile = "", keyFile = "", rowsFile = ""] = process.argv.slice(2);
const rows = JSON.parse(readFileSync(rowsFile, "utf8")) as {
  readonly lists: Readonly<Record<string, unknown>>;
  readonly configs: Readonly<Record<string, unknown>>;
};
const app = fastify({
  https: { cert: readFileSync(certFile), key: readFileSync(keyFile) },
  maxRequestsPerSocket: 100,
  keepAliveTimeout: 10_000,
});
for (const [path, data] of Object.entries(rows.lists)) {
  app.get(path, (_req, reply) => {
    void reply.type("application/json;charset=UTF-8").send(JSON.stringify({ data }));
  });
}
app.get<{ Params: { vmid: string } }>("/config/:vmid", (req, reply) => {
  void reply
    .type("application/json;charset=UTF-8")
    .send(JSON.stringify({ data: rows.configs[req.params.vmid] }));
});
await app.listen({ host: "127.0.0.1", port: 0 });
const address = app.server.address();
console.log(`port ${typeof address === "object" ? address?.port : ""}`);
