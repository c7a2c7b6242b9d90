// Servers' folders without a server: what is asked of mount, and what happens when nobody answers.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { exec as realExec, type Exec } from "@gpve/kit/exec.ts";
import { storageConformance } from "../../../testing/storage-conformance.ts";
import { readImage, writeImage } from "../../../testing/qemu-io.ts";
import { createScanHandlers } from "../../../presentation/pve/storage/scan-handlers.ts";
import { storagePlugin } from "../storage-plugins.ts";
import { ToolScans } from "./network-scans.ts";
import { Touches } from "./touches.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

/** Mounting is noted, all else is done. */
class Host {
  readonly folder = mkdtempSync(join(tmpdir(), "gpve-mounted-"));
  readonly point = join(this.folder, "point");
  readonly ran: string[][] = [];
  readonly credentials: string[] = [];
  table = "";
  hangs: string | undefined;
  fails: string | undefined;

  readonly exec: Exec = async (program, args, options) => {
    this.ran.push([program, ...args]);
    if (this.hangs === program) return new Promise(() => undefined);
    if (program === "mount") {
      if (this.fails !== undefined)
        throw new AppError("internal.error", "mount failed with exit code 32", {
          data: { stderr: `${this.fails}\n` },
        });
      const [, type = "", , text = "", , source = "", point = ""] = args;
      const file = /credentials=([^,]+)/.exec(text)?.[1];
      if (file !== undefined) {
        expect(statSync(file).mode & 0o777).toBe(0o600);
        this.credentials.push(readFileSync(file, "utf8"));
      }
      this.table += `30 1 0:50 / ${point} rw - ${type} ${source.replaceAll(" ", String.raw`\040`)} rw\n`;
      return { code: 0, stdout: "", stderr: "" };
    }
    if (program === "umount") {
      this.table = "";
      return { code: 0, stdout: "", stderr: "" };
    }
    return realExec(program, args, options);
  };

  plugin(type: "nfs" | "cifs", options: Record<string, string>, password?: string): StoragePlugin {
    const where = type === "nfs" ? { server: "nas", export: "/vms" } : { server: "nas", share: "vms" };
    const definition = newStorageDefinition("s", type, { ...where, path: this.point, ...options });
    return storagePlugin(definition, {
      ...plainPlugins(this.exec),
      mounts: async () => this.table,
      secretFolder: join(this.folder, "secrets"),
      secretOf: async () => password,
      patienceMs: this.hangs === undefined ? 10_000 : 100,
    });
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

let host: Host;
beforeEach(() => {
  host = new Host();
});
afterEach(() => host.close());

storageConformance("nfs, mounted by nobody", async () => {
  const own = new Host();
  const plugin = own.plugin("nfs", { content: "images,iso,backup" });
  const formatOf = (volname: string): string => plugin.parse(volname).format;
  return {
    plugin,
    formats: ["qcow2", "raw"],
    write: (volname, offset, bytes) => writeImage(plugin.path(volname), formatOf(volname), offset, bytes),
    read: (volname, offset, length) => readImage(plugin.path(volname), formatOf(volname), offset, length),
    close: async () => own.close(),
  };
});

describe("a folder of a server", () => {
  it("is mounted once, used as a directory and let go", async () => {
    const plugin = host.plugin("nfs", { options: "vers=4.2", content: "images,iso" });
    expect((await plugin.status()).active).toBe(true);
    await plugin.activate();
    expect(host.ran.filter(([program]) => program === "mount")).toEqual([
      ["mount", "-t", "nfs", "-o", "vers=4.2,nosuid,nodev", "--", "nas:/vms", host.point],
    ]);
    expect(existsSync(join(host.point, "template/iso"))).toBe(true);
    await plugin.deactivate();
    expect(host.table).toBe("");
  });

  it("is not what somebody else mounted there", async () => {
    host.table = `30 1 0:50 / ${host.point} rw - nfs4 other:/vms rw\n`;
    await expect(host.plugin("nfs", {}).activate()).rejects.toThrow("has 'other:/vms' (nfs4) mounted");
    host.table = `30 1 0:50 / ${host.point} rw - nfs4 nas:/vms rw\n`;
    mkdirSync(host.point);
    await host.plugin("nfs", {}).activate();
  });

  it("has its password in a file of root's, which is gone afterwards, and nowhere else", async () => {
    const plugin = host.plugin("cifs", { username: "joe", domain: "d" }, "pa,ss");
    await plugin.activate();
    expect(host.credentials).toEqual(["username=joe\npassword=pa,ss\ndomain=d\n"]);
    expect(JSON.stringify(host.ran)).not.toContain("pa,ss");
    expect(existsSync(join(host.folder, "secrets/s.cifs"))).toBe(false);
    host.table = "";
    await expect(host.plugin("cifs", { username: "joe" }).activate()).rejects.toThrow("no password is known");
    await host.plugin("cifs", {}).activate();
    expect(host.ran.findLast(([program]) => program === "mount")?.[4]).toMatch(/^guest,soft,/);
  });

  it("that hangs is given up, and nobody else is sent there", async () => {
    host.hangs = "stat";
    const plugin = host.plugin("nfs", {});
    await expect(plugin.status()).rejects.toThrow(
      "storage 's' (nas:/vms) is not online: its server does not answer within 0.1 s",
    );
    const before = host.ran.length;
    await expect(plugin.list()).rejects.toThrow("another one still waits");
    await expect(plugin.alloc({ vmid: 100, format: "raw", size: 1 })).rejects.toThrow("not online");
    expect(host.ran.length).toBe(before);
  });

  it("says why it cannot be mounted, and is tried again", async () => {
    host.fails = "mount.nfs: access denied by server while mounting nas:/vms";
    const plugin = host.plugin("nfs", {});
    await expect(plugin.activate()).rejects.toThrow("is not online: mount.nfs: access denied by server");
    host.fails = undefined;
    await plugin.activate();
  });

  it("is not used where its server has a link in place of a folder", async () => {
    mkdirSync(host.point);
    await realExec("ln", ["-s", "/etc", join(host.point, "images")]);
    await expect(host.plugin("nfs", {}).activate()).rejects.toThrow("it is a link on its server");
  });

  it("that stops to answer in the middle holds two threads and no more", async () => {
    const touches = new Touches("s", 20);
    const never = (): Promise<void> => new Promise(() => undefined);
    const lost = await Promise.allSettled([touches.run(never), touches.run(never), touches.run(never)]);
    expect(lost.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    await expect(touches.run(() => Promise.resolve())).rejects.toThrow("in the middle of the work");
    const fine = new Touches("s", 1_000);
    expect(await Promise.all([1, 2, 3, 4].map((n) => fine.run(() => Promise.resolve(n))))).toEqual([
      1, 2, 3, 4,
    ]);
  });
});

describe("servers in the network", () => {
  it("are asked what they offer, with the password in a file", async () => {
    const asked: (readonly string[])[] = [];
    const exec: Exec = async (program, args) => {
      asked.push([program, ...args]);
      if (args.includes("away")) throw new AppError("request.timeout", "showmount did not finish");
      const stdout = program === "showmount" ? "/vms *\n" : "Disk|vms|\n";
      return { code: 0, stderr: "", stdout };
    };
    const scans = createScanHandlers(new ToolScans({ exec, secretFolder: join(host.folder, "s") }));
    const ctx = { signal: new AbortController().signal } as never;
    const node = "n1";
    expect(await scans["GET /nodes/{node}/scan/nfs"]?.({ node, server: "nas" }, ctx)).toEqual([
      { path: "/vms", options: "*" },
    ]);
    const cifs = scans["GET /nodes/{node}/scan/cifs"];
    expect(await cifs?.({ node, server: "nas" }, ctx)).toEqual([{ share: "vms", description: "" }]);
    await cifs?.({ node, server: "nas", username: "u", password: "geheim", domain: "d" }, ctx);
    expect(asked.at(-1)?.join(" ")).toContain("--authentication-file=");
    expect(JSON.stringify(asked)).not.toContain("geheim");
    await expect(scans["GET /nodes/{node}/scan/nfs"]?.({ node, server: "away" }, ctx)).rejects.toThrow(
      "unable to scan 'away': showmount did not finish",
    );
  });
});
