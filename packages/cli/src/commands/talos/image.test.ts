import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEPLOYER_PRIVILEGES, FakePlatform, PlatformApi } from "@gpve/talos/testing/fake-platform.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

let gpvectl: Gpvectl;
let platform: FakePlatform;
let factory: Server;
/** What the factory serves; undefined: nothing. */
let served: string | undefined;
let fetched: string[];
const env = { GPVE_TOKEN: "root@pam!t=1" };
const talos = (...args: readonly string[]) => gpvectl.run(["talos", ...args], { env });
const answering = (answer: string, ...args: readonly string[]) =>
  gpvectl.run(["talos", ...args], { env, answers: [answer] });
const at = (...path: readonly string[]) => join(gpvectl.home, ...path);
const sum = (text: string) => createHash("sha256").update(text).digest("hex");
const apply = () => talos("apply", "--only", "infrastructure", "--yes");

interface Row {
  readonly name: string;
  readonly sha256: string | null;
  readonly heldBy: string | null;
  readonly unpinned: { readonly why: string } | null;
}
const listed = async (): Promise<Row> => {
  const [row] = JSON.parse((await talos("image", "list", "-o", "json")).out) as Row[];
  if (row === undefined) throw new Error("no image");
  return row;
};

beforeEach(async () => {
  gpvectl = await Gpvectl.create();
  platform = new FakePlatform();
  platform.privileges = () => DEPLOYER_PRIVILEGES;
  gpvectl.api.answer = (request) => new PlatformApi(platform).answer(request);
  served = "an image";
  fetched = [];
  factory = createServer((request, response) => {
    request.resume();
    if (request.method === "POST") response.writeHead(201).end("{}");
    else {
      fetched.push(request.url ?? "");
      if (served === undefined) response.writeHead(503).end();
      else response.end(served);
    }
  });
  await new Promise<void>((done) => factory.listen(0, "127.0.0.1", done));
  const network = ["--network", "127.0.9.0/24", "--endpoint", "https://127.0.0.1:8006"];
  await talos("init", "--yes", "--name", "prod", "--nodes", "pve1", "--preset", "lab", ...network);
  const { port } = factory.address() as AddressInfo;
  await talos("set", `image.factory=http://127.0.0.1:${port}`);
});
afterEach(async () => {
  factory.close();
  await gpvectl[Symbol.asyncDispose]();
});

test("what is built again is refused until it is accepted, by name and after a yes", async () => {
  expect((await talos("image", "list")).out).toContain("what its first fetch gives");
  expect(await talos("plan", "--only", "infrastructure")).toMatchObject({ code: 0 });
  expect(await talos("preflight")).toMatchObject({ code: 0 });
  expect(fetched).toEqual([]);
  expect(await apply()).toMatchObject({ code: 0 });
  expect(fetched).toHaveLength(1);
  const { name, sha256, heldBy } = await listed();
  expect({ sha256, heldBy }).toEqual({ sha256: sum("an image"), heldBy: "lock" });

  served = "built again";
  platform.served.set(name, served);
  platform.guests.clear();
  platform.volumes.splice(0);
  const refused = await apply();
  expect(refused).toMatchObject({ code: 7 });
  expect(refused.err).toContain(`gpvectl talos image accept`);
  expect(refused.err).toContain("More on this: gpvectl talos explain image-rebuilt");
  expect(platform.guests.size).toBe(0);

  const no = await answering("no", "image", "accept", name);
  expect(no).toMatchObject({ code: 1 });
  expect(no.err).toContain(`${sum("an image")} -> ${sum("built again")}`);
  expect(await listed()).toMatchObject({ sha256: sum("an image") });
  expect(await answering("yes", "image", "accept", name)).toMatchObject({ code: 0 });
  expect(await listed()).toMatchObject({ sha256: sum("built again"), heldBy: "lock" });
  expect((await talos("image", "accept", name, "--yes")).out).toContain("is what is pinned");
  expect(await apply()).toMatchObject({ code: 0 });
  expect(platform.guests.size).toBeGreaterThan(0);
});

test("what cannot be read from here is told by apply and preflight, and can be pinned by its sum", async () => {
  served = undefined;
  const made = await apply();
  expect(made).toMatchObject({ code: 0 });
  expect(made.out).toContain("image-not-pinned");
  const { name, sha256, unpinned } = await listed();
  expect(sha256).toBeNull();
  expect(unpinned?.why).toMatch(
    /^http:\/\/127\.0\.0\.1:\d+\/image\/\S+ cannot be read from here: status 503$/,
  );
  expect((await talos("image", "list")).out).toContain("nothing: http");
  const { findings } = JSON.parse((await talos("preflight", "-o", "json")).out) as { findings: object[] };
  expect(findings).toMatchObject([{ id: "image-not-pinned", severity: "warning", subject: name }]);
  expect(await talos("image", "accept", name, "--yes")).toMatchObject({
    err: expect.stringContaining("status 503"),
  });
  expect(await talos("image", "accept", name, "--yes", "--sha256", "AB")).toMatchObject({ code: 2 });
  const given = ["--sha256", sum("an image"), "--yes"];
  expect(await talos("image", "accept", name, ...given)).toMatchObject({ code: 0 });
  expect(await listed()).toMatchObject({ sha256: sum("an image"), unpinned: null });
  expect(JSON.parse((await talos("preflight", "-o", "json")).out)).toMatchObject({ findings: [] });
});

test("an image that is not the cluster's, or that the file holds, is not accepted", async () => {
  const { name } = await listed();
  expect(await talos("image", "accept", "other.qcow2", "--yes")).toMatchObject({
    code: 5,
    err: expect.stringContaining("gpvectl talos image list"),
  });
  await talos("set", `image.sha256=${sum("an image")}`);
  const refused = await talos("image", "accept", name, "--yes");
  expect(refused.err).toContain("image.sha256 in cluster.yaml says");
  expect(fetched).toEqual([]);
  expect((await talos("image", "list")).out).toContain(`${sum("an image")} (image.sha256)`);
  const { takeLease } = await import("@gpve/talos/folder/lease.ts");
  const lease = takeLease(gpvectl.home, "prod");
  expect(await talos("image", "accept", name, "--yes")).toMatchObject({ code: 8 });
  lease.release();
});

test("a file of the offline directory that was replaced is accepted the same way", async () => {
  const { name } = await listed();
  await talos("set", "image.offlineDir=.");
  writeFileSync(at(name), "the first file");
  expect(await apply()).toMatchObject({ code: 0 });
  writeFileSync(at(name), "another file");
  expect(await talos("image", "accept", name, "--yes")).toMatchObject({ code: 0 });
  const lock = JSON.parse(readFileSync(at(".deployer/prod/lock.json"), "utf8")) as { images: object };
  expect(lock.images).toEqual({ [name]: sum("another file") });
  expect(fetched).toEqual([]);
});
