// A VM on its way to a cluster that is made up, and a cluster that is reached over real TLS.
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import type { RemoteCluster } from "@gpve/domain/vm/migrate/remote-cluster.ts";
import type { RemoteEndpoint } from "@gpve/domain/vm/migrate/remote-move.ts";
import {
  createAuthority,
  createKeyPair,
  issue,
  privateKeyPem,
  readCertificate,
  SERVER_ROLE,
} from "@gpve/kit/pki/x509.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HttpsCluster } from "../../../infrastructure/remote/https-cluster.ts";
import { contextOf } from "../../../testing/storage-world.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { RemoteMigration } from "./remote-migrate.ts";

const quiet = new AbortController().signal;
const ENDPOINT = "host=far,apitoken=root@pam!m=verysecret";

describe("a VM that leaves", () => {
  let world: VmWorld;
  let engine: OperationEngine;
  let logs: MemoryTaskLogs;
  let remote: RemoteMigration;
  let calls: string[];
  let endOf: (upid: string) => string;

  beforeEach(async () => {
    world = await VmWorld.open();
    ({ engine, logs } = testEngine());
    calls = [];
    endOf = () => "OK";
    let polls = 0;
    const cluster: RemoteCluster = {
      call: async (method, path, params = {}) => {
        calls.push(`${method} ${path}${params["scsi0"] === undefined ? "" : ` ${params["scsi0"]}`}`);
        if (path === "/version") return { version: "9.2" };
        if (path.endsWith("/status"))
          return polls++ % 2 === 0
            ? { status: "running" }
            : { status: "stopped", exitstatus: endOf(decodeURIComponent(path)) };
        return "UPID:far:qmcreate";
      },
      upload: async (storage, { name, body }, { progress }) => {
        let bytes = 0;
        for await (const chunk of body) bytes += chunk.length;
        progress(1);
        calls.push(`upload ${storage} ${name.replace(/-[0-9a-f]{8}\./, "-ID.")} ${bytes > 0}`);
        return "UPID:far:imgcopy";
      },
      peer: () => Promise.reject(new Error("nobody sends VMs that are off by a line")),
    };
    const clock = { ...world.host.clock, sleep: async () => undefined };
    remote = new RemoteMigration({ ...world.host, clock, reach: () => cluster }, engine);
    engine.register(remote.operation());
    engine.register({
      type: "qmdestroy",
      steps: [{ name: "destroy", run: ({ log }) => void calls.push(`destroyed ${log === undefined}`) }],
    });
    await engine.start();
    await world.addWithDisk(100, { name: "web", ide2: "local:iso/x.iso,media=cdrom" });
  });
  afterEach(async () => {
    await engine.stop();
    world.remove();
  });

  const ask = (more: object = {}) =>
    remote.request(
      {
        node: "n1",
        vmid: 100,
        "target-endpoint": ENDPOINT,
        "target-vmid": 300,
        "target-storage": "store",
        "target-bridge": "1",
        ...more,
      },
      contextOf(undefined),
    );

  test("is uploaded, made there, cleared away there, and destroyed here when asked for", async () => {
    const upid = await ask({ delete: true, bwlimit: 0 });
    expect(upid).toContain(":qmigrate:100:");
    expect(await engine.wait(upid)).toMatchObject({ state: "done" });
    const said = (logs.lines.get(upid) ?? []).join("\n");
    expect(said).toMatch(
      /answers \(version 9\.2\)[^]*ide2 \(local:iso\/x\.iso\) stays here[^]*it is VM 300 there/,
    );
    expect(said).not.toContain("verysecret");
    expect(
      calls.filter((each) => !each.includes("/tasks/")).map((each) => each.replace(/-[0-9a-f]{8}\./, "-ID.")),
    ).toEqual(
      expect.arrayContaining([
        "GET /version",
        "upload store remote-300-scsi0-ID.qcow2 true",
        "POST /nodes/localhost/qemu store:0,import-from=store:import/remote-300-scsi0-ID.qcow2",
        "DELETE /nodes/localhost/storage/store/content/store%3Aimport%2Fremote-300-scsi0-ID.qcow2",
      ]),
    );
    await expect.poll(() => calls.at(-1)).toBe("destroyed false");
  });

  test("stays as it was when the other side fails, and leaves nothing there", async () => {
    endOf = (upid) => (upid.includes("qmcreate") ? "no room" : "OK");
    const upid = await ask();
    expect(await engine.wait(upid)).toMatchObject({ exitStatus: expect.stringContaining("no room") });
    expect(calls.at(-1)).toContain("DELETE /nodes/localhost/storage/store/content/");
    expect((logs.lines.get(upid) ?? []).join("\n")).toContain("VM 100 stays here as it was");
    expect(world.images(100)).toHaveLength(1);
  });

  test("is refused with a map that is none, or that names no storage of the other cluster", async () => {
    const bad = {
      pveStatus: 400,
      errors: { "target-storage": expect.stringContaining("parse storage map: ") },
    };
    await expect(ask({ "target-storage": "a:b,a:c" })).rejects.toMatchObject(bad);
    const bridge = "failed to parse bridge map: default target ID can only be provided once";
    await expect(ask({ "target-bridge": "vmbr0,vmbr1" })).rejects.toMatchObject({
      errors: { "target-bridge": bridge },
    });
    await expect(ask({ "target-storage": "1" })).rejects.toMatchObject({
      pveStatus: 500,
      message: "remote migration requires explicit storage mapping!",
    });
  });

  test("is refused while it runs, or where it is a template", async () => {
    await world.run(100);
    await expect(ask()).rejects.toThrow("without --online");
    await expect(ask({ online: true })).rejects.toThrow("discs that stay in this cluster");
    await world.add(101, { template: "1" });
    await expect(ask({ vmid: 101 })).rejects.toThrow("is a template");
  });
});

describe("another cluster over HTTPS", () => {
  let server: Server;
  let endpoint: RemoteEndpoint;
  const seen: { method: string; url: string; auth: string; body: string }[] = [];

  beforeEach(async () => {
    seen.length = 0;
    const authority = await createAuthority("far", Date.now());
    const pair = await createKeyPair();
    const request = {
      commonName: "far",
      days: 1,
      now: Date.now(),
      role: SERVER_ROLE,
      names: ["far"],
    } as const;
    const cert = await issue(authority, pair.keys.publicKey, request);
    server = createServer({ cert, key: await privateKeyPem(pair.keys.privateKey) }, (incoming, answer) => {
      let body = "";
      incoming.on("data", (chunk: Buffer) => (body += chunk.toString("latin1")));
      incoming.on("end", () => {
        const { method = "", url = "", headers } = incoming;
        seen.push({ method, url, auth: headers.authorization ?? "", body });
        const bad = JSON.stringify({ message: "wrong\n", errors: { a: "b\n" } });
        if (url.endsWith("/empty")) answer.end();
        else if (url.endsWith("/plain")) answer.writeHead(502).end("no JSON");
        else if (url.endsWith("/bad")) answer.writeHead(400).end(bad);
        else answer.end(JSON.stringify({ data: url.includes("/upload") ? "UPID:x" : "fine" }));
      });
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const { port } = server.address() as AddressInfo;
    endpoint = {
      host: "127.0.0.1",
      port,
      apitoken: "a@b!c=d",
      fingerprint: readCertificate(cert).fingerprint,
    };
  });
  afterEach(() => void server.close());

  test("is asked with the token, only when it is the one that was named", async () => {
    const cluster = new HttpsCluster(endpoint, quiet, tmpdir());
    expect(await cluster.call("GET", "/x", { a: "1" })).toBe("fine");
    expect(await cluster.call("POST", "/y", { a: "1 2" })).toBe("fine");
    expect(await cluster.call("DELETE", "/empty")).toBeNull();
    expect(seen).toMatchObject([
      { method: "GET", url: "/api2/json/x?a=1", auth: "PVEAPIToken=a@b!c=d", body: "" },
      { method: "POST", url: "/api2/json/y", body: "a=1+2" },
      { method: "DELETE" },
    ]);
    await expect(cluster.call("GET", "/bad")).rejects.toThrow("was refused: wrong; a: b");
    await expect(cluster.call("GET", "/plain")).rejects.toThrow("was refused: 502");
    const heard = seen.length;
    const other = new HttpsCluster({ ...endpoint, fingerprint: "00" }, quiet, tmpdir());
    await expect(other.call("GET", "/x")).rejects.toThrow("another fingerprint");
    const { fingerprint: _none, ...unnamed } = endpoint;
    await expect(new HttpsCluster(unnamed, quiet, tmpdir()).call("GET", "/x")).rejects.toThrow(
      "give the fingerprint",
    );
    expect(seen).toHaveLength(heard);
  });

  test("takes files as an upload, no faster than told", async () => {
    const cluster = new HttpsCluster(endpoint, quiet, tmpdir());
    const body = (async function* () {
      yield Buffer.from("abc");
      yield Buffer.from("def");
    })();
    const told: number[] = [];
    const work = { progress: (at: number) => void told.push(at), bytesPerSecond: 100 };
    expect(await cluster.upload("store", { name: "a.raw", size: 6, body }, work)).toBe("UPID:x");
    expect(told).toEqual([0.5, 1]);
    expect(seen[0]).toMatchObject({ url: "/api2/json/nodes/localhost/storage/store/upload" });
    expect(seen[0]?.body).toMatch(/name="content"\r\n\r\nimport[^]*filename="a\.raw"\r\n\r\nabcdef\r\n--/);
    const broken = (async function* () {
      yield Buffer.from("a");
      throw new Error("disk gone");
    })();
    await expect(
      cluster.upload("store", { name: "a.raw", size: 6, body: broken }, { progress: () => undefined }),
    ).rejects.toThrow("disk gone");
  });
});
