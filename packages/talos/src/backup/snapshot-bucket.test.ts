// Snapshots in a bucket, on a server in memory that checks who signed; a real server is in test/integration.
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { keepSnapshot, openSnapshot } from "../folder/snapshot-store.ts";
import { snapshotFolder } from "../engine/open-cluster.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { S3Bucket } from "./s3-bucket.ts";
import { bucketName, openSnapshotBucket } from "./snapshot-bucket.ts";
import { signRequest } from "./sign-request.ts";

const keys = { accessKey: "us", secretKey: "hidden" };
const now = () => Date.UTC(2026, 0, 2, 3, 4, 5);
let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-bucket-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Lists two at a time. */
class FakeS3 {
  readonly objects = new Map<string, Buffer>();
  readonly seen: string[] = [];

  readonly fetch: ConstructorParameters<typeof S3Bucket>[2]["fetch"] = async (url, init) => {
    const { method, headers, body = new Uint8Array() } = init;
    this.seen.push(`${method} ${url.pathname}`);
    const signed = signRequest({ method, url, region: "us-east-1", body, now: now() }, keys);
    if (headers["authorization"] !== signed["authorization"])
      return reply(
        403,
        "<Error><Code>SignatureDoesNotMatch</Code><Message>not &lt;ours&gt;</Message></Error>",
      );
    const key = url.pathname.slice("/backups/".length);
    if (method === "PUT") this.objects.set(key, Buffer.from(body));
    if (method === "DELETE") this.objects.delete(key);
    if (method !== "GET") return reply(200, "");
    if (url.searchParams.has("list-type")) return reply(200, this.#list(url.searchParams));
    const found = this.objects.get(key);
    return found === undefined ? reply(404, "<Error><Code>NoSuchKey</Code></Error>") : reply(200, found);
  };

  #list(query: URLSearchParams): string {
    const all = [...this.objects.keys()]
      .filter((key) => key.startsWith(query.get("prefix") ?? ""))
      .toSorted();
    const from = Number(query.get("continuation-token") ?? 0);
    const next = from + 2 < all.length ? `<NextContinuationToken>${from + 2}</NextContinuationToken>` : "";
    return `${all
      .slice(from, from + 2)
      .map((key) => `<Key>${key}</Key>`)
      .join("")}${next}`;
  }
}

const reply = (status: number, body: string | Buffer) => ({
  status,
  arrayBuffer: async () => Uint8Array.from(Buffer.from(body)).buffer,
});

const s3 = {
  endpoint: "https://s3.example.org/",
  bucket: "backups",
  prefix: "talos/",
  accessKeyRef: { env: "S3_KEY" },
  secretKeyRef: { env: "S3_SECRET" },
};
const cluster = testCluster({ backup: { etcd: { to: ["s3"], keep: 3, s3 } } });
const around = (secret = "hidden") => ({
  env: { S3_KEY: "us", S3_SECRET: secret },
  homeDir: "/nonexistent",
  cwd: "/",
  now: 0,
});
const snapshot = (text: string) => {
  const content = Buffer.from(text);
  return Buffer.concat([content, createHash("sha256").update(content).digest()]);
};

test("snapshots lie in the bucket under the cluster's name, the newest are kept, one is here", async () => {
  const server = new FakeS3();
  server.objects.set("talos/other/etcd-1.snapshot", Buffer.from("another cluster's"));
  const open = () => openSnapshotBucket({ cluster, folder }, around(), { fetch: server.fetch, now });
  for (let at = 0; at < 5; at += 1)
    await keepSnapshot({ folder, cluster }, snapshot(`state ${at}`), now() + at * 1000, open);
  expect([...server.objects.keys()].toSorted()).toEqual([
    "talos/other/etcd-1.snapshot",
    ...[7, 8, 9].map((second) => `talos/prod/etcd-20260102T03040${second}.000Z.snapshot`),
  ]);
  expect(readdirSync(snapshotFolder(folder, "prod"))).toEqual(["etcd-20260102T030409.000Z.snapshot"]);
  const { name, content } = (await (await open())?.get("latest")) ?? { name: "", content: Buffer.alloc(0) };
  expect(name).toBe("etcd-20260102T030409.000Z.snapshot");
  expect((await openSnapshot(content, name, around())).toString("utf8")).toContain("state 4");
  await expect((await open())?.get("etcd-2.snapshot")).rejects.toThrow(/the newest are etcd-2026/);
});

test("keys that are not taken are told with the server's words and without the keys; the file stays here", async () => {
  const server = new FakeS3();
  const open = () => openSnapshotBucket({ cluster, folder }, around("wrong"), { fetch: server.fetch, now });
  const failed = keepSnapshot({ folder, cluster }, snapshot("state"), now(), open);
  await expect(failed).rejects.toMatchObject({
    message: expect.stringMatching(/PUT s3:\/\/backups\/.*SignatureDoesNotMatch: not <ours>$/),
    data: { finding: "snapshot-target" },
  });
  await expect(failed).rejects.not.toThrow(/wrong/);
  expect(readdirSync(snapshotFolder(folder, "prod"))).toHaveLength(1);
});

test("a server that does not answer, and one that lacks the object, are told", async () => {
  const silent = new S3Bucket({ ...s3, region: "us-east-1" }, keys, {
    fetch: () => Promise.reject(new Error("fetch failed", { cause: new Error("connect ECONNREFUSED") })),
    now,
  });
  await expect(silent.get("x")).rejects.toThrow(
    "GET s3://backups/x at https://s3.example.org/: connect ECONNREFUSED",
  );
  const empty = new S3Bucket({ ...s3, region: "us-east-1" }, keys, { fetch: new FakeS3().fetch, now });
  await expect(empty.get("x")).rejects.toMatchObject({ code: "object.not_found" });
});

test("without a bucket in the file there is none, and to: [s3] without one is refused", async () => {
  const without = { cluster: testCluster(), folder };
  expect(await openSnapshotBucket(without, around(), { fetch: new FakeS3().fetch, now })).toBeUndefined();
  expect(() => testCluster({ backup: { etcd: { to: ["s3"] } } })).toThrow(/backup.etcd.s3 is not there/);
  expect([bucketName("s3:latest"), bucketName("./s3.snapshot")]).toEqual(["latest", undefined]);
});
