// Container images pulled by skopeo from a registry that this test serves, over TLS with an authority of its own.
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pullOciOperation } from "@gpve/agent/application/storage/pull-oci.ts";
import { plainTools, type ImageTools } from "@gpve/agent/infrastructure/image-tools/image-tools.ts";
import {
  SkopeoRegistry,
  type SkopeoRegistryDeps,
} from "@gpve/agent/infrastructure/storage/fetch/skopeo-registry.ts";
import { createOciHandlers } from "@gpve/agent/presentation/pve/storage/oci-handlers.ts";
import { CAN_CONFINE, confinedImageTools } from "@gpve/agent/testing/confined-image-tools.ts";
import { StorageNode } from "@gpve/agent/testing/storage-world.ts";
import { exec } from "@gpve/kit/exec.ts";
import { createAuthority, createKeyPair, issue, SERVER_ROLE } from "@gpve/kit/pki/x509.ts";

const hasSkopeo = existsSync("/usr/bin/skopeo");
if (!hasSkopeo) console.warn("SKIPPED: no skopeo; get it with: apt-get install skopeo");

const PULL = "POST /nodes/{node}/storage/{storage}/oci-registry-pull";
const digestOf = (blob: Buffer): string => `sha256:${createHash("sha256").update(blob).digest("hex")}`;

/** An image with these layers. */
function imageOf(tars: readonly Buffer[]): { blobs: [string, Buffer][]; manifest: Buffer } {
  const layers = tars.map((tar) => gzipSync(tar, { level: 0 }));
  const config = Buffer.from(
    JSON.stringify({
      architecture: "amd64",
      os: "linux",
      config: { Cmd: ["/tool"] },
      rootfs: { type: "layers", diff_ids: tars.map(digestOf) },
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
      layers: layers.map((layer) => ({
        mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
        digest: digestOf(layer),
        size: layer.length,
      })),
    }),
  );
  return { blobs: [...layers, config].map((blob) => [digestOf(blob), blob]), manifest };
}

const MIB = 1024 * 1024;
/** `team/tool` by its tags: small, one large layer, many that are large together. */
const images = new Map([
  ["1.0", imageOf([Buffer.alloc(1024)])],
  ["large", imageOf([Buffer.alloc(4 * MIB, 1)])],
  ["many", imageOf(Array.from({ length: 12 }, (_, at) => Buffer.alloc(MIB, at + 2)))],
]);

let folder: string;
let server: Server;
let node: StorageNode;
let host: string;
let tools: ImageTools;
let trusted: SkopeoRegistryDeps;

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
    const blobs = new Map([...images.values()].flatMap((image) => image.blobs));
    server = createServer({ cert, key: pair.keyPem }, (request, response) => {
      const path = request.url ?? "";
      const blob = blobs.get(path.slice(path.lastIndexOf("/") + 1));
      const manifest = images.get(/^\/v2\/team\/tool\/manifests\/(.+)$/.exec(path)?.[1] ?? "")?.manifest;
      const type = "application/vnd.oci.image.manifest.v1+json";
      if (path === "/v2/") response.end("{}");
      else if (path.startsWith("/v2/team/tool/tags/list"))
        response.end(JSON.stringify({ name: "team/tool", tags: ["0.9", "1.0"] }));
      else if (manifest !== undefined)
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
    tools = CAN_CONFINE ? confinedImageTools(folder) : plainTools(exec);
    trusted = { tools, scratch: join(folder, "run"), env: { SSL_CERT_FILE: join(folder, "ca.pem") } };
    const skopeo = new SkopeoRegistry(trusted);
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
  });

  test("an image that is larger than there is room for leaves nothing, whether by one layer or by many", async () => {
    const path = join(folder, "pulled");
    const work = { signal: new AbortController().signal, say: () => undefined };
    const pull = (bytes: number, tag: string): Promise<void> =>
      new SkopeoRegistry({ ...trusted, room: async () => bytes }).pull(
        `${host}/team/tool:${tag}`,
        path,
        work,
      );
    await expect(pull(256 * 1024, "large")).rejects.toThrow(
      "the unpacked file does not fit on the storage: it has more than 262144 bytes",
    );
    await expect(pull(2 * 1024 * 1024, "many")).rejects.toThrow("more than 2097152 bytes");
    await new SkopeoRegistry(trusted).discard(path);
    expect(readdirSync(folder).filter((name) => name.startsWith("pulled"))).toEqual([]);
  });

  test.skipIf(!CAN_CONFINE)("skopeo is nobody, and what it made is root's", async () => {
    const spied: (number | undefined)[] = [];
    const path = join(folder, "owned");
    const watching: ImageTools = async (program, args, files, options) => {
      const result = await tools(program, args, files, options);
      spied.push(statSync(join(options?.fetching?.workFolder ?? "", "image.tar")).uid);
      return result;
    };
    const skopeo = new SkopeoRegistry({ ...trusted, tools: watching });
    const work = { signal: new AbortController().signal, say: () => undefined };
    await skopeo.pull(`${host}/team/tool:1.0`, path, work);
    expect(spied[0]).toBeGreaterThanOrEqual(0x3fff_0000);
    expect(statSync(path)).toMatchObject({ uid: 0, gid: 0, mode: 0o100600 });
    await skopeo.discard(path);
  });

  test("what the registry does not have, or whose certificate nobody trusts, leaves nothing", async () => {
    const unknown = await node.task(PULL, { storage: "local", reference: `${host}/team/tool:2.0` });
    expect(unknown.state).toBe("failed");
    const distrusting = new SkopeoRegistry({ tools, env: {}, scratch: join(folder, "run") });
    await expect(distrusting.tags(`${host}/team/tool`, new AbortController().signal)).rejects.toThrow(
      /certificate/,
    );
    expect(readdirSync(join(node.root, "local/template/cache"))).toEqual(["tool_1.0.tar"]);
  });
});
