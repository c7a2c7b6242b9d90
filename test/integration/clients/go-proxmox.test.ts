// go-proxmox in a small program: everything around a VM, then a VM with a real Linux, by password and by token.
import { createReadStream, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { login, skipping } from "../../support/foreign-clients.ts";
import { BUILD_MS, goPrograms, lacksGo } from "../../support/go-clients.ts";
import { apiOf, firstNode, type Gpve, startGpve } from "../../support/gpve.ts";
import { tinyImage } from "../../support/images.ts";

const bridge = "tbr882";
const lacking =
  process.getuid?.() === 0 && existsSync("/usr/bin/qemu-system-x86_64")
    ? await lacksGo()
    : "needs root, and qemu-system-x86 from apt-get install";

describe.skipIf(skipping("go-proxmox", lacking))("go-proxmox", () => {
  let gpve: Gpve;
  let web: Server;
  let folder = "";
  let program = "";

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-go-"));
    program = await goPrograms["go-proxmox-round"]();
    const image = await tinyImage();
    web = createServer((_req, res) => void createReadStream(image).pipe(res));
    await new Promise<void>((done) => web.listen(0, "127.0.0.1", done));
    // One that a killed run left is in the way.
    await exec("ip", ["link", "del", bridge], { okCodes: [0, 1] });
    await exec("ip", ["link", "add", bridge, "type", "bridge"]);
    await exec("ip", ["link", "set", bridge, "up"]);
    gpve = await startGpve();
  }, BUILD_MS);

  afterAll(async () => {
    await gpve.stop();
    web.close();
    await exec("ip", ["link", "del", bridge]);
    rmSync(folder, { recursive: true, force: true });
  });

  test("goes its whole round and leaves nothing", async () => {
    const iso = join(folder, "other-name.iso");
    writeFileSync(iso, Buffer.alloc(700_000, "x"));
    const { url, caFile, username, password } = gpve.credentials;
    const { user: tokenId, input: secret } = login(gpve.credentials, "token");
    const image = `http://127.0.0.1:${(web.address() as AddressInfo).port}/tiny.qcow2`;
    const settings = { url, caFile, username, password, tokenId, secret, image, iso, bridge, vmid: 8831 };
    const { stdout } = await exec(program, [], { input: JSON.stringify(settings), timeoutMs: 300_000 });
    expect(JSON.parse(stdout)).toMatchObject({
      version: expect.stringMatching(/^9\./),
      password: "whole round",
      token: "whole round",
      content: ["local:import/go.qcow2", "local:iso/go.img", "local:iso/go.iso"],
    });
    const api = apiOf(gpve.credentials);
    const node = await firstNode(api);
    expect((await api("GET", `/nodes/${node}/storage/local/content`)).data).toEqual([]);
    expect((await api("GET", "/cluster/resources", { type: "vm" })).data).toEqual([]);
    expect((await api("GET", "/pools")).data).toEqual([]);
  });
});
