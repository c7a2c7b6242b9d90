// Snapshots of etcd in a bucket of an S3 server that nobody here wrote: kept, read back by gpvectl, refused with a key that
// it does not know. It does not check signatures; sign-request.test.ts has what AWS itself signs.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { openSnapshotBucket } from "../../packages/talos/src/backup/snapshot-bucket.ts";
import { parseCluster } from "../../packages/talos/src/cluster/parse-cluster.ts";
import { keepSnapshot } from "../../packages/talos/src/folder/snapshot-store.ts";
import { minimalFile } from "../../packages/talos/src/testing/test-cluster.ts";
import { clientsFolder, npmClients } from "../support/foreign-clients.ts";
import { mainFile, nodeBinary, nodeOptions } from "../support/gpve.ts";

describe("snapshots in a bucket", () => {
  let folder = "";
  let server: Child | undefined;
  let text = "";
  const env = { S3_KEY: "S3RVER", S3_SECRET: "S3RVER" };
  const around = (more: object = {}) => ({
    env: { ...env, ...more },
    homeDir: folder,
    cwd: folder,
    now: Date.now(),
  });
  const place = () => ({ cluster: parseCluster(text, "cluster.yaml"), folder });
  const bucket = (more: object = {}) => openSnapshotBucket(place(), around(more), { fetch, now: Date.now });
  const gpvectl = (...args: readonly string[]) =>
    exec(nodeBinary, [...nodeOptions, mainFile, "ctl", "talos", ...args], {
      cwd: folder,
      env: { ...MINIMAL_ENV, HOME: folder, ...env },
      okCodes: [0, 1, 5],
      timeoutMs: 120_000,
    });

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-talos-s3-"));
    const packages = await npmClients("s3");
    const child = startChild(nodeBinary, [join(clientsFolder, "s3/serve.cjs"), packages, folder]);
    server = child;
    const port = await new Promise<string>((found, failed) => {
      child.onLine((line) => found(/^serving (\d+)$/.exec(line)?.[1] ?? ""));
      void child.exited.then((code) => failed(new Error(`it ended with ${code}: ${child.output()}`)));
    });
    const s3 = [
      `endpoint: "http://127.0.0.1:${port}"`,
      "bucket: backups",
      "prefix: talos/",
      "accessKeyRef: { env: S3_KEY }",
      "secretKeyRef: { env: S3_SECRET }",
    ].join(", ");
    text = `${minimalFile}backup: { etcd: { to: [dir, s3], keep: 3, s3: { ${s3} } } }\n`;
    writeFileSync(join(folder, "cluster.yaml"), text);
  }, 600_000);

  afterAll(async () => {
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const snapshot = (content: string) => {
    const bytes = Buffer.concat([Buffer.alloc(300_000, content), Buffer.from(content)]);
    return Buffer.concat([bytes, createHash("sha256").update(bytes).digest()]);
  };

  test("the newest are kept, whole, and gpvectl reads and checks them", async () => {
    const begun = Date.UTC(2026, 0, 1);
    for (let at = 0; at < 5; at += 1)
      await keepSnapshot(place(), snapshot(`state ${at}`), begun + at * 1000, () => bucket());
    const opened = await bucket();
    expect(await opened?.names()).toEqual(
      [2, 3, 4].map((second) => `etcd-20260101T00000${second}.000Z.snapshot`),
    );
    const { content } = (await opened?.get("latest")) ?? { content: Buffer.alloc(0) };
    expect(content.equals(snapshot("state 4"))).toBe(true);
    const checked = await gpvectl("etcd", "verify", "s3:latest");
    expect(checked.code, checked.stdout + checked.stderr).toBe(0);
    expect(checked.stdout).toContain("s3:latest is whole");
    const missing = await gpvectl("etcd", "verify", "s3:etcd-none.snapshot");
    expect(missing.code, missing.stdout).toBe(5);
    expect(missing.stderr).toContain("the newest are etcd-20260101T000002.000Z.snapshot");
  });

  test("a snapshot that was changed in the bucket is not taken", async () => {
    const opened = await bucket();
    await opened?.put("etcd-20260101T000009.000Z.snapshot", Buffer.from("cut off"));
    const { code, stderr } = await gpvectl("etcd", "verify", "s3:latest");
    expect(code).toBe(1);
    expect(stderr).toContain("is no snapshot of etcd, or it is damaged");
  });

  test("a wrong key is the server's refusal, and no secret is in it", async () => {
    const wrong = { S3_KEY: "somebody", S3_SECRET: "guessed-it" };
    const failed = bucket(wrong).then((opened) => opened?.names());
    await expect(failed).rejects.toThrow(/GET s3:\/\/backups\/ at http.*: InvalidAccessKeyId: /);
    await expect(failed).rejects.not.toThrow(/guessed-it/);
    expect(readFileSync(join(folder, "cluster.yaml"), "utf8")).not.toContain("S3RVER");
  });
});
