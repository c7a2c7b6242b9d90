import { AppError } from "@gpve/contracts/errors.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { shapeProblems } from "@gpve/kit/testing/response-shape.ts";
import { expect, test } from "vitest";
import { madeUpExec, madeUpFiles } from "../../testing/made-up-host.ts";
import { DebianHost } from "./debian-host.ts";

const kernel = () => ({ release: "6.1.0-1-amd64", machine: "x86_64" });
const versions = methodByKey("GET /nodes/{node}/apt/versions")?.returns ?? {};
const updates = methodByKey("GET /nodes/{node}/apt/update")?.returns ?? {};

test("shows gpve, the kernel that runs, and the installed packages it leans on", async () => {
  const exec = madeUpExec({
    "dpkg-query": [
      "swtpm\t0.7\tamd64\tmisc\toptional\tinstalled\tTPM emulator\n For guests.\n .\n More.",
      "zfsutils-linux\t\t\t\t\tnot-installed\t",
      "",
    ].join("\u001e"),
  });
  const rows = await new DebianHost({ exec, files: madeUpFiles({}), kernel }).versions();
  expect(shapeProblems(versions, rows)).toEqual([]);
  expect(rows[0]).toMatchObject({
    Package: "gpve",
    Arch: "amd64",
    RunningKernel: "6.1.0-1-amd64",
    ManagerVersion: expect.stringMatching(/^pve-manager\/9\./),
  });
  expect(rows.slice(1)).toEqual([
    {
      Package: "swtpm",
      Title: "TPM emulator",
      Description: "For guests. \n More.",
      Origin: "unknown",
      Section: "misc",
      Priority: "optional",
      Arch: "amd64",
      Version: "0.7",
      OldVersion: "0.7",
      CurrentState: "Installed",
    },
  ]);
});

test("shows what could be upgraded, and looks again only when packages or lists changed", async () => {
  const files: Record<string, string> = { "/var/lib/dpkg/status": "" };
  let upgrade = [
    "Inst bash [5.2-1] (5.2-2 Debian:12.5/stable [amd64])",
    "Inst linux-image-7 (7.1-1 Debian:12.5/stable, Debian-Security:12/stable-security [amd64]) []",
    "Conf bash (5.2-2 Debian:12.5/stable [amd64])",
  ].join("\n");
  const exec = madeUpExec({
    "apt-get": () => upgrade,
    "apt-cache show -- bash=5.2-2 linux-image-7=7.1-1":
      "Package: bash\nSection: shells\nPriority: required\nDescription-en: A shell\n Runs things.\nDescription-md5: abc\n\n",
  });
  const host = new DebianHost({ exec, files: madeUpFiles(files), kernel });
  const rows = await host.upgrades();
  expect(shapeProblems({ ...updates, items: {} }, rows)).toEqual([]);
  expect(rows).toEqual([
    {
      Package: "bash",
      Title: "A shell",
      Description: "Runs things.",
      Origin: "Debian",
      Section: "shells",
      Priority: "required",
      Arch: "amd64",
      Version: "5.2-2",
      OldVersion: "5.2-1",
    },
    expect.objectContaining({ Package: "linux-image-7", Section: "unknown", Version: "7.1-1" }),
  ]);
  expect(rows[1]).not.toHaveProperty("OldVersion");
  upgrade = "";
  expect(await host.upgrades()).toBe(rows);
  files["/var/lib/apt/lists"] = "";
  expect(await host.upgrades()).toEqual([]);
});

test("a host that is no Debian says so, and a failure is not remembered", async () => {
  const other = new DebianHost({ exec: madeUpExec({}), files: madeUpFiles({}), kernel });
  await expect(other.versions()).rejects.toThrow("dpkg-query is not installed");
  let fails = true;
  const exec = madeUpExec({
    "apt-get": () => {
      if (fails) throw new AppError("internal.error", "apt-get failed with exit code 100");
      return "";
    },
  });
  const host = new DebianHost({ exec, files: madeUpFiles({}), kernel });
  await expect(host.upgrades()).rejects.toThrow("exit code 100");
  fails = false;
  expect(await host.upgrades()).toEqual([]);
});
