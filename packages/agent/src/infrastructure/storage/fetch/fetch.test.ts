import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createServer as createTls, type Server as TlsServer } from "node:https";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { makeTestCertificates } from "@gpve/store/testing/test-certificates.ts";
import { fileNameOf, HttpFetcher } from "./http-fetcher.ts";
import { inspectOva, parseTarHeader } from "./ova.ts";
import { HostStorageFiles } from "./storage-files.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

let folder = "";
let web: Server;
let tls: TlsServer;
let http = "";
let https = "";
const at = (name: string): string => join(folder, name);
const signal = new AbortController().signal;
const work = { signal, progress: () => undefined };

beforeAll(async () => {
  web = createServer((req, res) => {
    if (req.url === "/moved") res.writeHead(302, { location: "/file" }).end();
    else if (req.url === "/round") res.writeHead(302, { location: "/round" }).end();
    else if (req.url === "/odd") res.writeHead(302, { location: "file:///etc/passwd" }).end();
    else if (req.url === "/huge") res.writeHead(200, { "content-length": String(2 ** 52) }).end();
    else if (req.url === "/endless") {
      const more = (): void => {
        while (!res.destroyed && res.write(Buffer.alloc(1024 * 1024)));
      };
      res.on("drain", more);
      more();
    } else if (req.url === "/cut") {
      res.writeHead(200, { "content-length": "100" });
      res.write("x");
      setTimeout(() => res.destroy(), 10);
    } else if (req.url?.startsWith("/file") === true)
      res
        .writeHead(200, {
          "content-length": "5",
          "content-type": "text/html; charset=utf-8",
          "content-disposition": 'attachment; filename="real.iso"',
        })
        .end(req.method === "HEAD" ? undefined : "hello");
    else res.writeHead(404).end();
  });
  const { serverCert, serverKey } = await certificate();
  tls = createTls({ cert: serverCert, key: serverKey }, (_req, res) => res.end("tls"));
  await Promise.all([web, tls].map((each) => new Promise<void>((done) => each.listen(0, "127.0.0.1", done))));
  http = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  https = `https://127.0.0.1:${(tls.address() as AddressInfo).port}`;
});
afterAll(() => {
  web.close();
  tls.close();
});
beforeEach(() => {
  if (folder !== "") rmSync(folder, { recursive: true, force: true });
  folder = mkdtempSync(join(tmpdir(), "gpve-fetch-"));
  return () => rmSync(folder, { recursive: true, force: true });
});

describe("fetching by HTTP", () => {
  const fetcher = new HttpFetcher({ userAgent: "test" });
  const verified = { verifyCertificates: true, signal };

  it("goes through the proxy that is set, for both kinds of address", async () => {
    const seen: string[] = [];
    const proxy = createServer((req, res) => {
      seen.push(`${req.method} ${req.url} ${req.headers["proxy-authorization"]}`);
      res.end("from the proxy");
    });
    proxy.on("connect", (req, socket) => {
      seen.push(`CONNECT ${req.url}`);
      const through = connect((tls.address() as AddressInfo).port, "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 OK\r\n\r\n");
        through.pipe(socket).pipe(through);
      });
      through.on("error", () => socket.destroy());
      socket.on("error", () => through.destroy());
    });
    await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
    let set: string | undefined = `http://u:p@127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const proxied = new HttpFetcher({ userAgent: "test", proxy: () => set });
    try {
      await proxied.download("http://nowhere.invalid/a.iso", at("a"), { ...verified, ...work });
      expect(readFileSync(at("a"), "utf8")).toBe("from the proxy");
      const lax = { verifyCertificates: false, ...work };
      await proxied.download("https://nowhere.invalid/b.iso", at("b"), lax);
      expect(readFileSync(at("b"), "utf8")).toBe("tls");
      expect(seen).toEqual(["GET http://nowhere.invalid/a.iso Basic dTpw", "CONNECT nowhere.invalid:443"]);
      set = undefined;
      await proxied.download(`${http}/file`, at("c"), { ...verified, ...work });
      expect(seen).toHaveLength(2);
    } finally {
      proxy.close();
      proxy.closeAllConnections();
    }
  });

  it("tells what a URL leads to", async () => {
    expect(await fetcher.facts(`${http}/file`, verified)).toEqual({
      filename: "real.iso",
      size: 5,
      mimetype: "text/html",
    });
    await expect(fetcher.facts(`${http}/none`, verified)).rejects.toThrow(
      "invalid server response: '404 Not Found'",
    );
  });

  it("names files by what the server or the URL says", () => {
    expect(fileNameOf("http://x/a/b.iso?c=d", undefined)).toBe("b.iso");
    expect(fileNameOf("http://x/a", "attachment; filename=c.iso; x")).toBe("c.iso");
    expect(fileNameOf("http://x", undefined)).toBe("x");
  });

  it("follows redirects and writes the body, with progress", async () => {
    const seen: number[] = [];
    const bytes = await fetcher.download(`${http}/moved`, at("x"), {
      ...verified,
      progress: (fraction) => seen.push(fraction),
    });
    expect([bytes, readFileSync(at("x"), "utf8"), seen.at(-1)]).toEqual([5, "hello", 1]);
  });

  it.each([
    ["/round", "too many other addresses"],
    ["/odd", "neither http nor https"],
    ["/huge", "not enough space"],
    ["/none?secret=1", "404"],
  ])("refuses %s", async (path, text) => {
    await expect(
      fetcher.download(http + path, at("x"), { ...verified, progress: () => undefined }),
    ).rejects.toThrow(text);
  });

  it("ends a body of unknown length before it fills the storage", async () => {
    let looks = 0;
    const freeBytes = async (): Promise<number> => (++looks < 3 ? 2 ** 40 : 2 ** 20);
    const careful = new HttpFetcher({ userAgent: "test", freeBytes });
    await expect(
      careful.download(`${http}/endless`, at("x"), { ...verified, progress: () => undefined }),
    ).rejects.toThrow("the storage is full after 3");
  });

  it("does not take a cut body for a whole one, nor wait for nobody", async () => {
    await expect(
      fetcher.download(`${http}/cut`, at("x"), { ...verified, progress: () => undefined }),
    ).rejects.toThrow(/^the download of '.*\/cut' ended after [01] of 100 bytes$/);
    await expect(fetcher.facts("http://127.0.0.1:1/x?key=1", verified)).rejects.toThrow(
      /cannot fetch 'http:\/\/127\.0\.0\.1:1\/x': /,
    );
  });

  it("checks certificates unless told not to", async () => {
    await expect(fetcher.facts(`${https}/x`, verified)).rejects.toThrow("cannot fetch");
    const loose = { verifyCertificates: false, signal };
    expect(await fetcher.download(`${https}/x`, at("x"), { ...loose, progress: () => undefined })).toBe(3);
  });
});

describe("files of a storage", () => {
  const files = new HostStorageFiles(plainPlugins());

  it("are put in place, over what was there", async () => {
    writeFileSync(at("a"), "new");
    await files.install(at("a"), at("deep/er/b"), signal);
    expect(readFileSync(at("deep/er/b"), "utf8")).toBe("new");
    expect(statSync(at("deep/er/b")).mode & 0o777).toBe(0o640);
    expect([await files.exists(at("a")), await files.size(at("deep/er/b"))]).toEqual([false, 3]);
  });

  it("are put in place across file systems", async () => {
    if (statSync("/dev/shm").dev === statSync(folder).dev) return;
    const other = mkdtempSync("/dev/shm/gpve-");
    try {
      writeFileSync(join(other, "a"), "far");
      await files.install(join(other, "a"), at("b"), signal);
      expect(readFileSync(at("b"), "utf8")).toBe("far");
      expect(readdirSync(other)).toEqual([]);
      expect(readdirSync(folder)).toEqual(["b"]);
    } finally {
      rmSync(other, { recursive: true });
    }
  });

  it("are copied once, and not over others", async () => {
    writeFileSync(at("a"), "x");
    await files.copy(at("a"), at("b"), work);
    writeFileSync(at("b"), "mine");
    await expect(files.copy(at("a"), at("b"), work)).rejects.toThrow("EEXIST");
    expect(readFileSync(at("b"), "utf8")).toBe("mine");
    await files.remove(at("b"));
    await files.remove(at("b"));
    expect(existsSync(at("b"))).toBe(false);
  });

  it("are hashed by any of PVE's algorithms", async () => {
    writeFileSync(at("a"), "x");
    expect(await files.hash(at("a"), "md5", signal)).toBe("9dd4e461268c8034f5c8564e155c67a6");
    expect(await files.hash(at("a"), "sha224", signal)).toHaveLength(56);
  });

  it("are unpacked by every method", async () => {
    const plain = "some text ".repeat(1000);
    writeFileSync(at("gz"), gzipSync(plain));
    writeFileSync(at("zst"), zstdCompressSync(plain));
    writeFileSync(at("plain"), plain);
    await exec("bzip2", ["-k", at("plain")]);
    await exec("lzop", [at("plain"), "-o", at("lzo")]);
    await exec("mv", [at("plain.bz2"), at("bz2")]);
    for (const method of ["gz", "zst", "bz2", "lzo"]) {
      await files.decompress(at(method), method, signal);
      expect(readFileSync(at(method), "utf8")).toBe(plain);
    }
    expect(readdirSync(folder).sort()).toEqual(["bz2", "gz", "lzo", "plain", "zst"]);
  });

  it("that cannot be unpacked leave nothing beside them", async () => {
    writeFileSync(at("a"), "no archive");
    await expect(files.decompress(at("a"), "gz", signal)).rejects.toThrow("unable to decompress it as gz: ");
    await expect(files.decompress(at("a"), "zst", signal)).rejects.toThrow(
      "unable to decompress it as zst: ",
    );
    await expect(files.decompress(at("a"), "rar", signal)).rejects.toThrow(
      "unknown decompression method 'rar'",
    );
    expect(readdirSync(folder)).toEqual(["a"]);
  });

  it("tell a full disk from other trouble", async () => {
    const full: Exec = async () => {
      throw Object.assign(new Error("write ENOSPC"), { code: "ENOSPC" });
    };
    writeFileSync(at("a"), "x");
    const failed = new HostStorageFiles(plainPlugins(full)).decompress(at("a"), "lzo", signal);
    await expect(failed).rejects.toMatchObject({ code: "capacity.exceeded" });
  });

  it("that are disk images are looked at, others not", async () => {
    await exec("qemu-img", ["create", "-q", "-f", "qcow2", at("a.qcow2"), "1M"]);
    await files.inspect(at("a.qcow2"), "a.qcow2", signal);
    await expect(files.inspect(at("a.qcow2"), "a.vmdk", signal)).rejects.toThrow("the image is refused");
    writeFileSync(at("b.ova"), "x".repeat(600));
    await expect(files.inspect(at("b.ova"), "b.ova", signal)).rejects.toThrow("not a tar archive");
    await files.inspect(at("none"), "none.ovf", signal);
    await files.inspect(at("none"), "none.tar.gz", signal);
  });

  it("that are media may be anything but disk images that name other files", async () => {
    writeFileSync(at("plain.iso"), "x");
    await files.inspect(at("plain.iso"), "plain.iso", signal);
    await exec("qemu-img", ["create", "-q", "-f", "qcow2", at("cloud.img"), "1M"]);
    await files.inspect(at("cloud.img"), "cloud.img", signal);
    await exec("qemu-img", [
      "rebase",
      "-u",
      "-f",
      "qcow2",
      "-F",
      "raw",
      "-b",
      "/etc/passwd",
      at("cloud.img"),
    ]);
    await expect(files.inspect(at("cloud.img"), "cloud.img", signal)).rejects.toThrow(
      "it builds on a backing file",
    );
    writeFileSync(
      at("text.iso"),
      '# Disk DescriptorFile\ncreateType="monolithicFlat"\nRW 1 FLAT "/etc/passwd" 0\n',
    );
    await expect(files.inspect(at("text.iso"), "text.iso", signal)).rejects.toThrow("the image is refused");
  });
});

describe("OVA archives", () => {
  const tar = async (...names: string[]): Promise<string> => {
    for (const name of names) writeFileSync(at(name), name);
    await exec("tar", ["--format=ustar", "-cf", at("x.ova"), "-C", folder, ...names]);
    return at("x.ova");
  };

  it("show their members and where they lie", async () => {
    const path = await tar("a.ovf", "disk 1.vmdk");
    const members = await inspectOva(path);
    expect(members.map(({ name, size }) => [name, size])).toEqual([
      ["a.ovf", 5],
      ["disk 1.vmdk", 11],
    ]);
    const { offset = 0, size = 0 } = members[1] ?? {};
    expect(readFileSync(path).toString("utf8", offset, offset + size)).toBe("disk 1.vmdk");
  });

  it("may have headers of exact times, and of sizes, but none that renames a file", async () => {
    await tar("a.ovf", "d.vmdk");
    const pax = async (...options: string[]): Promise<string> => {
      const names = ["-C", folder, "a.ovf", "d.vmdk"];
      await exec("tar", ["--format=pax", ...options, "-cf", at("pax.ova"), ...names]);
      return at("pax.ova");
    };
    const names = async (path: string) => (await inspectOva(path)).map(({ name, size }) => [name, size]);
    const both = [
      ["a.ovf", 5],
      ["d.vmdk", 6],
    ];
    expect(await names(await pax())).toEqual(both);
    expect(await names(await pax("--pax-option=comment=hello"))).toEqual(both);
    expect(await names(await pax("--pax-option=size:=5", "--exclude=d.vmdk"))).toEqual([["a.ovf", 5]]);
    await expect(inspectOva(await pax("--pax-option=path:=../../etc/passwd"))).rejects.toThrow(
      "changes the path of a file",
    );
    await expect(inspectOva(await pax("--pax-option=size=5"))).rejects.toThrow("the size of all files");
    await expect(inspectOva(await pax("--pax-option=size:=99999999999999999999"))).rejects.toThrow(
      "absurd size",
    );
    await expect(inspectOva(await pax(`--pax-option=comment:=${"x".repeat(70_000)}`))).rejects.toThrow(
      "header of absurd size",
    );
    const path = await pax("--exclude=d.vmdk");
    const bytes = readFileSync(path);
    const first = bytes.subarray(0, 1024);
    writeFileSync(path, Buffer.concat([first, bytes]));
    await expect(inspectOva(path)).rejects.toThrow("two headers for one file");
  });

  it("without a description, cut off or broken are refused", async () => {
    await expect(inspectOva(await tar("a.vmdk"))).rejects.toThrow("no OVF description");
    const path = await tar("a.ovf");
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.subarray(0, 514));
    await expect(inspectOva(path)).rejects.toThrow("cut off");
    bytes[0] = 0x62;
    writeFileSync(path, bytes);
    await expect(inspectOva(path)).rejects.toThrow("wrong checksum");
  });

  it("with links, directories or paths are refused", async () => {
    await exec("ln", ["-s", "/etc/passwd", at("l.vmdk")]);
    await exec("tar", ["--format=ustar", "-cf", at("l.ova"), "-C", folder, "l.vmdk"]);
    await expect(inspectOva(at("l.ova"))).rejects.toThrow("no plain file");
    writeFileSync(at("a.ovf"), "x");
    await exec("tar", [
      "--format=ustar",
      "-cf",
      at("p.ova"),
      "-C",
      folder,
      "--transform=s,^,../../,",
      "-P",
      "a.ovf",
    ]);
    await expect(inspectOva(at("p.ova"))).rejects.toThrow("forbidden name");
  });

  it("may hold files larger than octal digits can say", () => {
    const block = Buffer.alloc(512);
    block.write("a.ovf");
    block.write("ustar", 257);
    block.write("0", 156);
    block[124] = 0x80;
    block.writeBigUInt64BE(2n ** 40n, 128);
    const seal = (): void => {
      block.fill(0x20, 148, 156);
      let sum = 0;
      for (const byte of block) sum += byte;
      block.write(sum.toString(8).padStart(6, "0"), 148);
    };
    seal();
    expect(parseTarHeader(block, 512).size).toBe(2 ** 40);
    block.writeBigUInt64BE(2n ** 60n, 128);
    seal();
    expect(() => parseTarHeader(block, 512)).toThrow("absurd size");
    block[124] = 0x30;
    block.write("nonsense", 125);
    seal();
    expect(() => parseTarHeader(block, 512)).toThrow(AppError);
  });
});

async function certificate(): Promise<{ serverCert: string; serverKey: string }> {
  const made = await makeTestCertificates();
  return { serverCert: made.server.cert, serverKey: made.server.key };
}
