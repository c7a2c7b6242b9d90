import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import { v1Routes } from "@gpve/contracts/v1/routes.ts";
import { bodyTerms } from "../http/read-body.ts";
import { readQuery, RouteTable } from "./match-route.ts";
import { readJson } from "./read-json.ts";

const routes = v1Routes();
const table = new RouteTable(routes);

function onlyInvalid(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch (err) {
    return isAppError(err, "request.invalid");
  }
}

describe("the route of a request", () => {
  it("is found for every declared path, whatever the name", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...routes),
        fc.string({ minLength: 1, unit: "grapheme" }),
        (route, name) => {
          const filled = route.path.replaceAll(/\{\w+\}/g, encodeURIComponent(name));
          const path = `/api/v1${filled}`;
          const found = table.match(route.method, path);
          expect(found).toMatchObject({ kind: "found", route: { operationId: route.operationId } });
          if (found.kind === "found" && route.path.includes("{name}"))
            expect(found.params).toMatchObject({ name });
        },
      ),
    );
  });

  it("is decided without surprises for any text", () => {
    const anyPath = fc.oneof(
      fc.string(),
      fc.webPath(),
      fc.string().map((text) => `/${text}/%`),
    );
    fc.assert(
      fc.property(fc.constantFrom("GET", "POST", "HEAD", ""), anyPath, (method, path) => {
        expect(onlyInvalid(() => table.match(method, `/api/v1${path}`))).toBe(true);
      }),
    );
  });
});

describe("queries and bodies", () => {
  it("are read or refused, never anything else", async () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...routes),
        fc.oneof(fc.string(), fc.webQueryParameters()),
        (route, text) => {
          expect(onlyInvalid(() => readQuery(route, text))).toBe(true);
        },
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const req = Object.assign(Readable.from([Buffer.from(bytes)]), {
          headers: { "content-length": String(bytes.length) },
        });
        try {
          await readJson(req as unknown as IncomingMessage, bodyTerms(undefined, "::1"));
        } catch (err) {
          expect(isAppError(err, "request.invalid")).toBe(true);
        }
      }),
    );
  });

  it("that break off are told apart from those that are wrong", async () => {
    const req = Object.assign(new Readable({ read: () => undefined }), {
      headers: { "content-length": "10" },
    });
    const reading = readJson(req as unknown as IncomingMessage, bodyTerms(undefined, "::1"));
    req.destroy();
    await expect(reading).rejects.toMatchObject({ code: "operation.cancelled" });
  });
});
