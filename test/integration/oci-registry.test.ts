// Container images pulled by skopeo from a registry that this test serves, over TLS with an authority of its own.
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pullOciOperation } from "@gpve/agent/application/storage/pull-oci.ts";
import { SkopeoRegistry } from "@gpve/agent/infrastructure/storage/fetch/skopeo-registry.ts";
import { createOciHandlers } from "@gpve/agent/presentation/pve/storage/oci-handlers.ts";
import { StorageNode } from "@gpve/agent/testing/storage-world.ts";
import { exec } from "@gpve/kit/exec.ts";
import { createAuthority, createKeyPair, issue, SERVER_ROLE } from "@gpve/kit/pki/x509.ts";

const hasSkopeo = existsSync("/usr/bin/skopeo");
if (!hasSkopeo) console.warn("SKIPPED: no skopeo; get it with: apt-get install skopeo");

const PULL = "POST /nodes/{node}/storage/{storage}/oci-registry-pull";
const digestOf = (blob: Buffer): string => `sha256:${createHash("sha256").update(blob).digest("hex")}`;

/** One image, `team/tool:1.0`, with one layer. */
function registry(): { blobs: Map<string, Buffer>; manifest: Buffer } {
  const tar = Buffer.alloc(1024);
  const layer = gzipSync(tar);
  const config = Buffer.from(
    JSON.stringify({
      architecture: "amd64",
      os: "linux",
      config: { Cmd: ["/tool"] },
      rootfs: { type: "layers", diff_ids: [digestOf(tar)] },
    }),
  );
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: {
        mediaType: "application/vnd.oci.image.config.v1+json",
        digest: digestOf(config),
        size: config.length,
      },
      layers: [
        {
          mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
          digest: digestOf(layer),
          size: layer.length,
        },
      ],
    }),
  );
  return { blobs: new Map([layer, config].map((blob) => [digestOf(blob), blob])), manifest };
}

let folder: string;
let server: Server;
let node: StorageNode;
let host: string;

describe.skipIf(!hasSkopeo)("images of registries", () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-oci-"));
    const authority = await createAuthority("registry test", Date.now());
    const pair = await createKeyPair();
    const cert = await issue(authority, pair.keys.publicKey, {
      commonName: "localhost",
      role: SERVER_ROLE,
      names: ["localhost"],
      days: 1,
      now: Date.now(),
    });
    writeFileSync(join(folder, "ca.pem"), authority.certPem);
    const { blobs, manifest } = registry();
    server = createServer({ cert, key: pair.keyPem }, (request, response) => {
      const path = request.url ?? "";
      const blob = blobs.get(path.slice(path.lastIndexOf("/") + 1));
      const type = "application/vnd.oci.image.manifest.v1+json";
      if (path === "/v2/") response.end("{}");
      else if (path.startsWith("/v2/team/tool/tags/list"))
        response.end(JSON.stringify({ name: "team/tool", tags: ["0.9", "1.0"] }));
      else if (path === "/v2/team/tool/manifests/1.0")
        response
          .writeHead(200, { "Content-Type": type, "Docker-Content-Digest": digestOf(manifest) })
          .end(manifest);
      else if (path.startsWith("/v2/team/tool/blobs/") && blob !== undefined)
        response.writeHead(200, { "Content-Length": blob.length }).end(blob);
      else
        response
          .writeHead(404, { "Content-Type": "application/json" })
          .end('{"errors":[{"code":"MANIFEST_UNKNOWN"}]}');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    host = `localhost:${(server.address() as AddressInfo).port}`;
    node = new StorageNode();
    const skopeo = new SkopeoRegistry({ exec, env: { SSL_CERT_FILE: join(folder, "ca.pem") } });
    const { storages, files, operations } = node;
    operations.engine.register(pullOciOperation({ storages, files, registry: skopeo }));
    await operations.engine.start();
    Object.assign(
      node.handlers,
      createOciHandlers({ storages, files, engine: operations.engine, registry: skopeo }),
    );
  });
  afterAll(async () => {
    await node.operations.engine.stop();
    node.remove();
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
  });

  test("tags are listed, an image becomes a template that is an OCI archive", async () => {
    expect(
      await node.call("GET /nodes/{node}/query-oci-repo-tags", { reference: `${host}/team/tool` }),
    ).toEqual(["0.9", "1.0"]);
    const task = await node.task(PULL, { storage: "local", reference: `${host}/team/tool:1.0` });
    expect(task, JSON.stringify(task)).toMatchObject({ state: "done" });
    const archive = join(node.root, "local/template/cache/tool_1.0.tar");
    const { stdout } = await exec("tar", ["-tf", archive]);
    expect(stdout).toContain("oci-layout");
    expect(stdout).toContain("index.json");
  }, 60_000);

  test("what the registry does not have, or whose certificate nobody trusts, leaves nothing", async () => {
    const unknown = await node.task(PULL, { storage: "local", reference: `${host}/team/tool:2.0` });
    expect(unknown.state).toBe("failed");
    const distrusting = new SkopeoRegistry({ exec });
    await expect(distrusting.tags(`${host}/team/tool`, new AbortController().signal)).rejects.toThrow(
      /certificate/,
    );
    expect(readdirSync(join(node.root, "local/template/cache"))).toEqual(["tool_1.0.tar"]);
  }, 60_000);
});
