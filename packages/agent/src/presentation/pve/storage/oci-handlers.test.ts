import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { pullOciOperation } from "../../../application/storage/pull-oci.ts";
import type { ImageTools } from "../../../infrastructure/image-tools/image-tools.ts";
import { SkopeoRegistry } from "../../../infrastructure/storage/fetch/skopeo-registry.ts";
import { StorageNode } from "../../../testing/storage-world.ts";
import { createOciHandlers } from "./oci-handlers.ts";

const PULL = "POST /nodes/{node}/storage/{storage}/oci-registry-pull";
let node: StorageNode;
let seen: { args: readonly string[]; env: Readonly<Record<string, string>> }[];
let failure: string | undefined;

/** A skopeo that writes a line into the archive it is told to make. */
const skopeo: ImageTools = async (_program, args, _files, options = {}) => {
  const { env, workFolder } = options.fetching ?? { env: {}, workFolder: "" };
  seen.push({ args, env });
  const archive = args.at(-1)?.replace("oci-archive:", "") ?? "";
  if (args.includes("copy")) {
    mkdirSync(join(workFolder, "scratch"));
    writeFileSync(archive, "layers");
    options.onLine?.("Copying blob", "stdout");
  }
  if (failure !== undefined) throw new AppError("internal.error", failure);
  return { code: 0, stdout: '{"Repository":"x","Tags":["1","2"]}', stderr: "" };
};

async function setUp(): Promise<void> {
  node = new StorageNode();
  seen = [];
  failure = undefined;
  const registry = new SkopeoRegistry({
    tools: skopeo,
    scratch: join(node.root, "run"),
    env: { https_proxy: "http://proxy:1", SSL_CERT_FILE: "/ca.pem", HOME: "/root" },
  });
  const { storages, files, operations } = node;
  operations.engine.register(pullOciOperation({ storages, files, registry }));
  await operations.engine.start();
  Object.assign(node.handlers, createOciHandlers({ storages, files, engine: operations.engine, registry }));
}
afterEach(() => node.remove());

const cache = (): string[] => readdirSync(join(node.root, "local/template/cache")).sort();

it("keeps an image as a template under its name and tag, or the name given", async () => {
  await setUp();
  const task = await node.task(PULL, { storage: "local", reference: "docker.io/library/nginx:alpine" });
  expect(task).toMatchObject({ state: "done", type: "ociregistrypull" });
  await node.task(PULL, { storage: "local", reference: "r.example:5000/a/b:1.0", filename: "mine.tar" });
  expect(cache()).toEqual(["mine.tar", "nginx_alpine.tar"]);
  expect(seen[0]?.args.slice(2, 4)).toEqual(["copy", "docker://docker.io/library/nginx:alpine"]);
  expect(seen[0]?.env).toMatchObject({ HTTPS_PROXY: "http://proxy:1", SSL_CERT_FILE: "/ca.pem" });
  expect(seen[0]?.env["HOME"]).toBe(seen[0]?.env["TMPDIR"]);
  const content = (await node.call("GET /nodes/{node}/storage/{storage}/content", {
    storage: "local",
    content: "vztmpl",
  })) as { volid: string; format: string }[];
  expect(content.map(({ volid, format }) => `${volid} ${format}`)).toEqual([
    "local:vztmpl/mine.tar tar",
    "local:vztmpl/nginx_alpine.tar tar",
  ]);
});

it("leaves nothing behind when the registry refuses, and overwrites nothing", async () => {
  await setUp();
  failure = "skopeo failed with exit code 1: manifest unknown";
  const task = await node.task(PULL, { storage: "local", reference: "nil:1" });
  expect(task).toMatchObject({ state: "failed" });
  expect(JSON.stringify(task)).toContain("manifest unknown");
  expect(cache()).toEqual([]);
  node.put("template/cache/nil_1.tar");
  await expect(node.call(PULL, { storage: "local", reference: "nil:1" })).rejects.toThrow(
    "refusing to override existing file 'nil_1.tar'",
  );
  node.define("isos", { content: "iso" });
  await expect(node.call(PULL, { storage: "isos", reference: "nil:1" })).rejects.toThrow(
    "storage 'isos' does not support 'vztmpl' content",
  );
  expect(existsSync(join(node.root, "local/template/cache/nil_1.tar"))).toBe(true);
});

it("lists the tags of a repository", async () => {
  await setUp();
  expect(
    await node.call("GET /nodes/{node}/query-oci-repo-tags", { reference: "docker.io/library/nginx" }),
  ).toEqual(["1", "2"]);
});
