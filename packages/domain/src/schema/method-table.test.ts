import { describe, expect, it } from "vitest";
import { findMethod, indexChildren, methodByKey, methodKey, pveMethods } from "./method-table.ts";
import { pathSegments } from "./path-segments.ts";

describe("the method table", () => {
  it("finds every method under its own path", () => {
    for (const method of pveMethods) {
      const segments = pathSegments(method.path).map((part) => (part.startsWith("{") ? "x1" : part));
      expect(findMethod(method.method, segments)).toMatchObject({ kind: "found", key: methodKey(method) });
    }
    expect(methodByKey("GET /nodes")?.name).toBe("index");
  });

  it("hands out path parameters", () => {
    expect(findMethod("GET", ["nodes", "n1", "qemu", "100", "config"])).toMatchObject({
      key: "GET /nodes/{node}/qemu/{vmid}/config",
      pathParams: { node: "n1", vmid: "100" },
    });
  });

  it("lets volumes and networks span segments", () => {
    expect(findMethod("GET", pathSegments("/nodes/n1/storage/local/content/local:iso//x.iso"))).toMatchObject(
      {
        pathParams: { volume: "local:iso/x.iso" },
      },
    );
    expect(findMethod("PUT", pathSegments("/cluster/firewall/ipset/web/10.0.0.0/24"))).toMatchObject({
      pathParams: { name: "web", cidr: "10.0.0.0/24" },
    });
  });

  it("tells a wrong verb from an unknown path", () => {
    expect(findMethod("PUT", ["version"])).toEqual({ kind: "wrong-verb", allowed: ["GET"] });
    expect(findMethod("GET", ["version", "x"])).toEqual({ kind: "unknown" });
    expect(findMethod("GET", ["foo"])).toEqual({ kind: "unknown" });
    expect(findMethod("GET", ["__proto__"])).toEqual({ kind: "unknown" });
  });

  it("lists the fixed children of a path", () => {
    expect(indexChildren("/")).toEqual(["access", "cluster", "nodes", "pools", "storage", "version"]);
    expect(indexChildren("/nodes/{node}/qemu/{vmid}/status")).toContain("start");
    expect(indexChildren("/nowhere")).toEqual([]);
  });
});
