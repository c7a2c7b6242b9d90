import { describe, expect, it } from "vitest";
import { changedStorageDefinition, newStorageDefinition, secretsOf } from "./definition.ts";
import { credentialsText, networkMountOf } from "./network-mount.ts";

describe("storages that servers have", () => {
  it("are mounted where PVE mounts them, with nothing on them trusted", () => {
    const nfs = newStorageDefinition("nas1", "nfs", {
      server: "10.0.0.1",
      export: "/srv//vms/",
      options: "vers=4.2,hard",
    });
    expect(nfs.options).toMatchObject({ path: "/mnt/pve/nas1", content: "images" });
    expect(networkMountOf(nfs)).toEqual({
      storage: "nas1",
      fsType: "nfs",
      source: "10.0.0.1:/srv/vms",
      point: "/mnt/pve/nas1",
      options: ["vers=4.2", "hard", "nosuid", "nodev"],
    });
    const six = newStorageDefinition("n6", "nfs", { server: "fd00::1", export: "/x", path: "/srv/n6" });
    expect(networkMountOf(six)).toMatchObject({ source: "[fd00::1]:/x", point: "/srv/n6" });
  });

  it("log in at shares by a file, and keep the password out of the definition", () => {
    const given = {
      server: "nas",
      share: "my vms",
      subdir: "/a/b/",
      username: "u",
      domain: "d",
      smbversion: "3.11",
      password: "p,w",
    };
    const cifs = newStorageDefinition("win", "cifs", given);
    expect(JSON.stringify(cifs)).not.toContain("p,w");
    expect(secretsOf("cifs", given)).toEqual({ password: "p,w" });
    const mount = networkMountOf(cifs);
    expect(mount).toMatchObject({
      fsType: "cifs",
      source: "//nas/my vms/a/b",
      login: { username: "u", domain: "d" },
    });
    expect(mount.options).toEqual(expect.arrayContaining(["vers=3.11", "dir_mode=0700", "nosuid", "nodev"]));
    expect(credentialsText({ username: "u", domain: "d" }, "p,w")).toBe(
      "username=u\npassword=p,w\ndomain=d\n",
    );
    expect(() => credentialsText({ username: "u" }, "p\nusername=root")).toThrow("line break");
    const guest = newStorageDefinition("open", "cifs", {
      server: "nas",
      share: "pub",
      smbversion: "default",
    });
    expect(networkMountOf(guest).login).toBeUndefined();
  });

  it("are not led elsewhere by what was given", () => {
    const nfs = (more: Record<string, string>) =>
      newStorageDefinition("n", "nfs", { server: "a", export: "/b", ...more });
    for (const options of [
      "bind",
      "ro,remount",
      "x-mount.mkdir",
      "credentials=/etc/shadow",
      "password=x",
      "suid",
      "dev",
      "addr=1.2.3.4",
    ])
      expect(() => nfs({ options })).toThrow(/^mount option '[\w.-]+' cannot be given$/);
    expect(() => nfs({ options: "sec='x'" })).toThrow("characters that it cannot have");
    expect(() => nfs({ export: "/a/../b" })).toThrow("'export' is no plain path");
    expect(() => nfs({ export: "/a,b" })).toThrow("'export' is no plain path");
    const cifs = (more: Record<string, string>) =>
      newStorageDefinition("c", "cifs", { server: "a", share: "s", ...more });
    expect(() => cifs({ share: "a/b" })).toThrow("'share' is no plain name");
    expect(() => cifs({ subdir: "/x/.." })).toThrow("'subdir' is no plain path");
    expect(() => cifs({ username: "a\npassword=b" })).toThrow("'username' has a line break");
    expect(() => changedStorageDefinition(cifs({}), { options: "rbind" }, [])).toThrow("cannot be given");
    expect(() => changedStorageDefinition(cifs({}), { share: "b" }, [])).toThrow("fixed parameter 'share'");
  });
});
