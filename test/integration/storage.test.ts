// Storages of a real `gpve up`: uploads by clients nobody here wrote, downloads, volumes, crashes.
import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { apiOf, mainFile, nodeBinary, startGpve, type Api, type Gpve } from "../support/gpve.ts";

let gpve: Gpve;
let api: Api;
let node = "";
let web: Server;
let url = "";
let folder = "";
const payload = randomBytes(3_000_000);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpve-storage-it-"));
  web = createServer((req, res) => {
    if (req.url === "/a.iso") res.writeHead(200, { "content-length": payload.length }).end(payload);
    else if (req.url === "/a.iso.gz") res.end(gzipSync(payload));
    else res.writeHead(404).end();
  });
  await new Promise<void>((done) => web.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = (await api("GET", "/nodes")).data[0]["node"];
});
afterAll(async () => {
  await gpve.stop();
  web.close();
  rmSync(folder, { recursive: true, force: true });
});

const local = (): string => `/nodes/${node}/storage/local`;
const isoFile = (name: string): string => join(gpve.data, "storage/local/template/iso", name);

async function ended(upid: string): Promise<string> {
  for (;;) {
    const { data } = await api("GET", `/nodes/${node}/tasks/${encodeURIComponent(upid)}/status`);
    if (data["status"] === "stopped") return data["exitstatus"];
    await new Promise((done) => setTimeout(done, 50));
  }
}

const curl = (...args: string[]): ReturnType<typeof curlAs> => curlAs(gpve.credentials.token, ...args);

async function curlAs(token: string, ...args: string[]): Promise<{ status: number; body: string }> {
  const { stdout } = await exec("curl", [
    "-s",
    "--cacert",
    gpve.credentials.caFile,
    "-H",
    `Authorization: PVEAPIToken=${token}`,
    "-w",
    "\n%{http_code}",
    ...args,
  ]);
  const lines = stdout.split("\n");
  return { status: Number(lines.pop()), body: lines.join("\n") };
}
const uploadUrl = (): string => `${gpve.credentials.url}/api2/json${local()}/upload`;

describe("a fresh gpve", () => {
  test("has a storage for every kind of content, seen everywhere", async () => {
    const [definition] = (await api("GET", "/storage")).data as Record<string, unknown>[];
    expect(definition).toMatchObject({
      storage: "local",
      type: "dir",
      path: join(gpve.data, "storage/local"),
      content: "backup,images,import,iso,rootdir,snippets,vztmpl",
    });
    const [row] = (await api("GET", `/nodes/${node}/storage`)).data as Record<string, unknown>[];
    expect(row).toMatchObject({ storage: "local", active: 1, enabled: 1, shared: 0 });
    const [resource] = (await api("GET", "/cluster/resources", { type: "storage" })).data as Record<
      string,
      unknown
    >[];
    expect(resource).toMatchObject({ id: `storage/${node}/local`, status: "available", plugintype: "dir" });
    expect((await api("GET", `${local()}/rrddata`, { timeframe: "hour" })).status).toBe(200);
  });
});

describe("uploading with curl", () => {
  test("stores the file and finishes in a task", async () => {
    const file = join(folder, "up.iso");
    writeFileSync(file, payload);
    const sum = createHash("sha256").update(payload).digest("hex");
    const { status, body } = await curl(
      "-F",
      "content=iso",
      "-F",
      "checksum-algorithm=sha256",
      "-F",
      `checksum=${sum}`,
      "-F",
      `filename=@${file};filename=my up.iso`,
      uploadUrl(),
    );
    expect(status).toBe(200);
    const upid = (JSON.parse(body) as { data: string }).data;
    expect(upid).toContain(":imgcopy::");
    expect(await ended(upid)).toBe("OK");
    expect(readFileSync(isoFile("my_up.iso")).equals(payload)).toBe(true);
    expect(readdirSync(join(gpve.data, "agent/upload"))).toEqual([]);
  });

  test("refuses wrong names and unknown fields as PVE does", async () => {
    const file = join(folder, "small");
    writeFileSync(file, "x");
    const wrong = await curl("-F", "content=iso", "-F", `filename=@${file};filename=a.txt`, uploadUrl());
    expect([wrong.status, JSON.parse(wrong.body)]).toMatchObject([
      400,
      { errors: { filename: "wrong file extension" } },
    ]);
    const odd = await curl("-F", "foo=1", "-F", `filename=@${file};filename=a.iso`, uploadUrl());
    expect(odd).toEqual({ status: 500, body: "upload failed" });
    expect(readdirSync(join(gpve.data, "agent/upload"))).toEqual([]);
  });

  test("refuses those without the right in three seconds, with nothing to read", async () => {
    await api("POST", "/access/users", { userid: "up@pve", password: "correct horse" });
    const token = await api("POST", "/access/users/up@pve/token/t1");
    const file = join(folder, "small");
    const begun = performance.now();
    const answer = await curlAs(
      `up@pve!t1=${String(token.data["value"])}`,
      "-F",
      "content=iso",
      "-F",
      `filename=@${file};filename=a.iso`,
      uploadUrl(),
    );
    expect(answer).toEqual({ status: 403, body: "" });
    expect(performance.now() - begun).toBeGreaterThan(2_900);
  });
});

const hasProxmoxer = await exec("/usr/bin/python3", ["-c", "import proxmoxer, requests_toolbelt"]).then(
  () => true,
  () => false,
);
if (!hasProxmoxer)
  console.warn(
    "SKIPPED: proxmoxer is missing; get it with: apt-get install python3-proxmoxer python3-requests-toolbelt",
  );

test.skipIf(!hasProxmoxer)("proxmoxer uploads small and large files", async () => {
  const script = `
import sys, time
from proxmoxer import ProxmoxAPI
host, port, ca, folder = sys.argv[1:5]
api = ProxmoxAPI(host, port=int(port), user="root@pam", password=sys.stdin.read(), verify_ssl=ca)
node = api.nodes.get()[0]["node"]
for name, size in (("px-small.iso", 1000), ("px-large.iso", 11 * 1024 * 1024)):
    with open(folder + "/" + name, "wb") as out: out.write(b"x" * size)
    with open(folder + "/" + name, "rb") as data:
        upid = api.nodes(node).storage("local").upload.post(content="iso", filename=data)
    while True:
        status = api.nodes(node).tasks(upid).status.get()
        if status["status"] == "stopped": break
        time.sleep(0.1)
    print(name, status["exitstatus"], api.nodes(node).storage("local").content("local:iso/" + name).get()["size"])
`;
  const { hostname, port } = new URL(gpve.credentials.url);
  const { stdout } = await exec(
    "/usr/bin/python3",
    ["-W", "ignore", "-c", script, hostname, port, gpve.credentials.caFile, folder],
    { input: gpve.credentials.password },
  );
  expect(stdout).toBe("px-small.iso OK 1000\npx-large.iso OK 11534336\n");
});

test("a storage that cannot be used is refused when it is defined, and not kept", async () => {
  const path = join(folder, "not-there");
  const refused = await api("POST", "/storage", {
    storage: "gone",
    type: "dir",
    path,
    "create-base-path": 0,
  });
  expect([refused.status, refused.reason]).toEqual([
    500,
    `create storage failed: unable to activate storage 'gone' - directory '${path}' does not exist or is unreachable`,
  ]);
  expect((await api("GET", "/storage/gone")).status).toBe(500);
});

test("a storage is not defined, and not used, where it would overlap what is not its own", async () => {
  const define = (path: string, more: object = {}): Promise<{ reason: string; status: number }> =>
    api("POST", "/storage", { storage: "over", type: "dir", path, content: "snippets", ...more });
  for (const path of [
    "/etc/gpve-over",
    "/var",
    "/dev/shm/over",
    gpve.data,
    join(gpve.data, "storage"),
    dirname(gpve.data),
  ])
    expect((await define(path)).reason).toMatch(
      /^create storage failed: storage 'over' cannot use .* choose a directory/,
    );
  expect((await define(join(gpve.data, "storage/local"))).reason).toContain(
    "where storage 'local' keeps its volumes",
  );
  // A link that is there, and one that comes later.
  const path = join(folder, "over");
  symlinkSync("/etc", path);
  expect((await define(path)).reason).toContain("(which really is /etc): it is /etc");
  rmSync(path);
  expect((await define(path)).status).toBe(200);
  writeFileSync(join(path, "snippets/a.yml"), "a");
  const content = `/nodes/${node}/storage/over/content`;
  expect((await api("GET", content)).data).toMatchObject([{ volid: "over:snippets/a.yml" }]);
  rmSync(path, { recursive: true });
  symlinkSync(join(gpve.data, "secrets"), path);
  for (const refused of [
    await api("GET", content),
    await api("GET", `${content}/snippets%2Fa.yml`),
    await api("PUT", "/storage/over", { "content-dirs": "snippets=other" }),
  ])
    expect(refused.reason).toContain("the data directory of gpve");
  expect((await api("GET", `/nodes/${node}/storage/over/status`)).data).toMatchObject({ active: 0 });
  expect((await api("PUT", "/storage/over", { disable: 1 })).status).toBe(200);
  expect((await api("DELETE", "/storage/over")).status).toBe(200);
  // Nor is any of it a guest's.
  const map = (to: string): Promise<{ reason: string }> =>
    api("POST", "/cluster/mapping/dir", { id: "over", map: `node=${node},path=${to}` });
  expect((await map("/etc")).reason).toContain("it is /etc");
  expect((await map(path)).reason).toContain("the data directory of gpve");
  // What a guest has is no storage's, nor the other way round.
  rmSync(path);
  mkdirSync(join(path, "share"), { recursive: true });
  expect((await map(join(path, "share"))).reason).toBe("OK");
  symlinkSync(join(path, "share"), join(path, "link"));
  for (const inside of ["share/new", "link", "link/new"])
    expect((await define(join(path, inside))).reason).toContain(
      "which guests have as directory mapping 'over'",
    );
  expect((await api("DELETE", "/cluster/mapping/dir/over")).status).toBe(200);
  expect((await define(join(path, "share/new"))).status).toBe(200);
  expect((await map(join(path, "share"))).reason).toContain("where storage 'over' keeps its volumes");
  expect((await api("DELETE", "/storage/over")).status).toBe(200);
});

test("gpvectl uploads and lists", async () => {
  const file = join(folder, "ctl.iso");
  writeFileSync(file, payload);
  const ctl = (...args: string[]): Promise<{ stdout: string }> =>
    exec(nodeBinary, [mainFile, "ctl", "--data", gpve.data, "storage", ...args]);
  expect((await ctl("upload", "local", file)).stdout).toContain("Uploaded ctl.iso to storage local.");
  expect((await ctl("content", "local", "--content", "iso")).stdout).toContain("local:iso/ctl.iso");
  expect((await ctl("download", "local", `${url}/a.iso`, "--name", "dl.iso")).stdout).toContain(
    "Downloaded dl.iso",
  );
});

describe("downloading", () => {
  test("checks, unpacks and never overrides", async () => {
    const facts = await api("GET", `/nodes/${node}/query-url-metadata`, { url: `${url}/a.iso` });
    expect(facts.data).toEqual({ filename: "a.iso", size: payload.length });
    const sum = createHash("sha512").update(payload).digest("hex");
    const start = (params: Record<string, string>): ReturnType<Api> =>
      api("POST", `${local()}/download-url`, { content: "iso", ...params });
    const checked = { filename: "a.iso", url: `${url}/a.iso`, "checksum-algorithm": "sha512", checksum: sum };
    expect(await ended((await start(checked)).data)).toBe("OK");
    expect(await ended((await start(checked)).data)).toBe("OK");
    expect(await ended((await start({ filename: "a.iso", url: `${url}/a.iso` })).data)).toBe(
      `refusing to override existing file '${isoFile("a.iso")}'`,
    );
    const packed = { filename: "b.iso", url: `${url}/a.iso.gz`, compression: "gz" };
    expect(await ended((await start(packed)).data)).toBe("OK");
    expect(readFileSync(isoFile("b.iso")).equals(payload)).toBe(true);
    const wrong = { ...checked, filename: "c.iso", checksum: "00" };
    expect(await ended((await start(wrong)).data)).toContain("checksum mismatch");
    expect(await ended((await start({ filename: "c.iso", url: `${url}/none` })).data)).toContain("404");
    expect(existsSync(isoFile("c.iso"))).toBe(false);
    expect(
      readdirSync(join(gpve.data, "storage/local/template/iso")).filter((name) => name.startsWith(".")),
    ).toEqual([]);
  });
});

describe("volumes", () => {
  test("are allocated, copied and removed under names with raw slashes", async () => {
    const made = await api("POST", `${local()}/content`, {
      vmid: 9999,
      filename: "vm-9999-pvc-a.raw",
      size: "1024",
    });
    expect(made.data).toBe("local:9999/vm-9999-pvc-a.raw");
    const info = await api("GET", `${local()}/content/local:9999/vm-9999-pvc-a.raw`);
    expect(info.data).toMatchObject({ format: "raw", size: 1024 * 1024 });
    const root = await api("POST", `${local()}/content/9999/vm-9999-pvc-a.raw`, {
      target: "9999/vm-9999-pvc-b.raw",
    });
    expect(root.status).toBe(403);
    const gone = await api(
      "DELETE",
      `${local()}/content/${encodeURIComponent("local:9999/vm-9999-pvc-a.raw")}`,
    );
    expect(await ended(gone.data)).toBe("OK");
    const none = await api("GET", `${local()}/content`, { content: "images", vmid: 9999 });
    expect(none.data).toEqual([]);
  });
});

const tiny = mkdtempSync(join(tmpdir(), "gpve-tiny-"));
const canMount = await exec("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", tiny]).then(
  () => true,
  () => false,
);
if (!canMount) console.warn("SKIPPED: a full storage needs the right to mount a tmpfs; run as root");
afterAll(async () => {
  if (canMount) await exec("umount", [tiny]);
  rmSync(tiny, { recursive: true, force: true });
});

test.skipIf(!canMount)("a storage is not defined over what is mounted from elsewhere", async () => {
  const point = join(folder, "bound");
  mkdirSync(point);
  await exec("mount", ["--bind", "/etc", point]);
  try {
    const refused = await api("POST", "/storage", { storage: "bound", type: "dir", path: point });
    expect(refused.reason).toContain(`cannot use ${point}: it is /etc`);
  } finally {
    await exec("umount", [point]);
  }
});

test.skipIf(!canMount)("a storage that is full refuses, and keeps nothing of what did not fit", async () => {
  const options = { storage: "tiny", type: "dir", path: tiny, content: "images,iso", preallocation: "full" };
  expect((await api("POST", "/storage", options)).data).toEqual({ storage: "tiny", type: "dir" });
  const base = `/nodes/${node}/storage/tiny`;
  const alloc = await api("POST", `${base}/content`, {
    vmid: 100,
    filename: "vm-100-disk-0.raw",
    size: "64M",
  });
  expect([alloc.status, alloc.reason]).toEqual([
    500,
    expect.stringContaining("not enough space on the storage"),
  ]);
  const file = join(folder, "big.iso");
  writeFileSync(file, randomBytes(6_000_000));
  const sent = await curl(
    "-F",
    "content=iso",
    "-F",
    `filename=@${file}`,
    `${gpve.credentials.url}/api2/json${base}/upload`,
  );
  expect(await ended((JSON.parse(sent.body) as { data: string }).data)).toContain(
    "not enough space on the storage",
  );
  const started = await api("POST", `${base}/content`, {
    vmid: 100,
    filename: "vm-100-disk-0.raw",
    size: "1M",
  });
  expect(started.data).toBe("tiny:100/vm-100-disk-0.raw");
  expect((await api("GET", `${base}/content`)).data).toHaveLength(1);
  expect(readdirSync(join(tiny, "template/iso"))).toEqual([]);
  expect(readdirSync(join(gpve.data, "agent/upload"))).toEqual([]);
});

test("a kill in the middle leaves no half upload behind", async () => {
  writeFileSync(join(gpve.data, "agent/upload/upload-orphan"), "half");
  await gpve.kill();
  gpve = await gpve.restart();
  api = apiOf(gpve.credentials);
  expect(readdirSync(join(gpve.data, "agent/upload"))).toEqual([]);
  expect((await api("GET", `${local()}/status`)).data).toMatchObject({ active: 1 });
});
