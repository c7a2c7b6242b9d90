import { X509Certificate } from "node:crypto";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { createAuthority, createKeyPair, issue, SERVER_ROLE } from "@gpve/kit/pki/x509.ts";
import { afterAll, beforeAll, expect, it } from "vitest";
import { HttpsCluster } from "./https-cluster.ts";

let server: Server;
let answer = { status: 200, body: "" };
let fingerprint = "";

beforeAll(async () => {
  const now = Date.now();
  const pair = await createKeyPair();
  const request = { commonName: "x", days: 1, now, role: SERVER_ROLE, names: ["127.0.0.1"] } as const;
  const cert = await issue(await createAuthority("x", now), pair.keys.publicKey, request);
  fingerprint = new X509Certificate(cert).fingerprint256;
  server = createServer({ key: pair.keyPem, cert }, (req, res) => {
    req.resume();
    req.on("end", () => res.writeHead(answer.status).end(answer.body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => new Promise<void>((resolve) => server.close(() => resolve())));

const call = (body: string, status = 200): Promise<unknown> => {
  answer = { status, body };
  const { port } = server.address() as AddressInfo;
  const endpoint = { host: "127.0.0.1", port, apitoken: "root@pam!move=secret", fingerprint };
  return new HttpsCluster(endpoint, new AbortController().signal, tmpdir()).call("GET", "/version");
};

it("answers with the data of PVE's API", async () => {
  expect(await call('{"data": {"version": "9.2"}}')).toEqual({ version: "9.2" });
  expect(await call('{"data": null}')).toBeNull();
});

// Who may move a VM names the address: whatever answers there must not end the agent.
it.each(["<html>hi</html>", "null", "[]", "7", '"text"', "{}", "{", "[".repeat(100_000)])(
  "refuses %.20s as an answer",
  async (body) => {
    await expect(call(body)).rejects.toThrow(/GET \/version at 127\.0\.0\.1:\d+ failed: that is no answer/);
  },
);

it.each([
  ['{"message": "no\\n", "errors": {"a": "b"}}', "was refused: no; a: b"],
  ['{"message": 7, "errors": {"a": {"deep": 1}}}', "was refused: a: [object Object]"],
  ["null", "was refused: 500"],
  ["<html>", "was refused: 500"],
])("tells what a refusal says: %s", async (body, text) => {
  await expect(call(body, 500)).rejects.toThrow(text);
});

it("says no more of a refusal than anybody reads, and no secret", async () => {
  const failed = await call(JSON.stringify({ message: "x".repeat(100_000) }), 500).catch(
    (err: unknown) => err,
  );
  expect(String(failed).length).toBeLessThan(1000);
  expect(String(failed)).not.toContain("secret");
});
