// The line to another cluster over real TLS and websockets.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:https";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { createAuthority, createKeyPair, issue, readCertificate, SERVER_ROLE } from "@gpve/kit/pki/x509.ts";
import { afterEach, beforeEach, expect, it } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";
import { HttpsCluster } from "./https-cluster.ts";

const tunnel = { upid: "UPID:far:qmarrive", socket: "mtunnel-1", ticket: "secret" };
const quiet = new AbortController().signal;
let server: Server;
let cluster: HttpsCluster;
let folder: string;
let seen: { url: string; auth: string | undefined }[];
/** What the leading line is answered with. */
let answers: (string | undefined)[];
let leads: WebSocket[];

beforeEach(async () => {
  [seen, answers, leads] = [[], [], []];
  folder = mkdtempSync(join(tmpdir(), "gpve-tunnel-"));
  const now = Date.now();
  const pair = await createKeyPair();
  const request = { commonName: "x", days: 1, now, role: SERVER_ROLE, names: ["127.0.0.1"] } as const;
  const cert = await issue(await createAuthority("x", now), pair.keys.publicKey, request);
  server = createServer({ key: pair.keyPem, cert });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (ws, { url = "", headers }) => {
    seen.push({ url, auth: headers.authorization });
    if (!url.includes("lead"))
      return ws.on("message", (data: Buffer) => ws.send(Buffer.from(data).reverse()));
    leads.push(ws);
    return ws.on("message", () => {
      const answer = answers.shift();
      if (answer === undefined) ws.close();
      else ws.send(Buffer.from(answer));
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  const fingerprint = readCertificate(cert).fingerprint;
  cluster = new HttpsCluster({ host: "127.0.0.1", port, apitoken: "a@b!c=d", fingerprint }, quiet, folder);
});
afterEach(async () => {
  for (const each of leads) each.terminate();
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  rmSync(folder, { recursive: true, force: true });
});

it("is led by questions and answers, and carries what the guest sends", async () => {
  const peer = await cluster.peer(300, tunnel, quiet);
  expect(seen).toEqual([
    {
      url: "/api2/json/nodes/localhost/qemu/300/mtunnelwebsocket?socket=mtunnel-1.lead&ticket=secret",
      auth: "PVEAPIToken=a@b!c=d",
    },
  ]);
  const offer = { isPaused: false, disks: [] };
  answers = ['{"ok":true}\n', '{"error":"no room"}\n', '{"ok":true}\n'];
  expect(await peer.start(offer, quiet)).toBeUndefined();
  await expect(peer.start(offer, quiet)).rejects.toThrow("the other cluster says: no room");
  const allowed: string[] = [];
  const process = {
    id: "300",
    hasExited: false,
    allowFile: async ({ path }: { path: string }) => void allowed.push(path),
    forbidFile: async () => undefined,
  } as unknown as GuestProcess;
  const ram = await peer.forward(process, "ram");
  expect(allowed).toEqual([ram.path]);
  const guest = connect(ram.path);
  guest.write("abc");
  const heard = await new Promise<Buffer>((done) => guest.once("data", done));
  expect(heard.toString()).toBe("cba");
  expect(seen[1]?.url).toContain("socket=mtunnel-1.ram");
  guest.destroy();
  await ram.close();
  expect(await peer.commit()).toBeUndefined();
  peer.close();
  expect(peer.lost.aborted).toBe(false);
});

it("says when the other side is gone, or does not let it in", async () => {
  const peer = await cluster.peer(300, tunnel, quiet);
  await expect(peer.commit()).rejects.toThrow("the other cluster hung up");
  await expect.poll(() => peer.lost.aborted).toBe(true);
  const gone = AbortSignal.abort();
  await expect(cluster.peer(300, tunnel, gone)).rejects.toThrow("called off");
  server.removeAllListeners("upgrade");
  server.on("upgrade", (_req, socket) =>
    socket.end("HTTP/1.1 403 no such line\r\nContent-Length: 0\r\n\r\n"),
  );
  await expect(cluster.peer(300, tunnel, quiet)).rejects.toThrow("403 no such line");
});
