import { describe, expect, test } from "vitest";
import { responseError } from "./response-error.ts";
import { readText, type HttpResponse } from "./transport.ts";

function answer(status: number, reason: string, body: string, type = "application/json"): HttpResponse {
  const pieces = (async function* () {
    yield new TextEncoder().encode(body);
  })();
  return { status, reason, headers: { "content-type": type }, body: pieces, text: () => readText(pieces) };
}
const asked = { method: "GET", path: "/x" };

describe("PVE refusals", () => {
  test.each([
    [400, "Parameter verification failed.", "request.invalid"],
    [401, "No ticket", "auth.required"],
    [401, "authentication failure", "auth.failed"],
    [403, "Permission check failed (/, Sys.Audit)", "access.denied"],
    [404, "gone", "object.not_found"],
    [409, "x already exists", "object.exists"],
    [412, "stale", "object.conflict"],
    [410, "gone", "store.compacted"],
    [423, "locked", "resource.busy"],
    [500, "pool 'p1' does not exist", "object.not_found"],
    [500, "no such user ('x@pve')", "object.not_found"],
    [500, "create pool failed: pool 'p1' already exists", "object.exists"],
    [500, "detected modified configuration - file changed by other user? Try again.", "object.conflict"],
    [500, "VM is locked (backup)", "resource.busy"],
    [500, "boom", "internal.error"],
    [501, "Method 'GET /x' not implemented", "feature.unsupported"],
    [503, "store away", "store.unavailable"],
    [504, "slow", "request.timeout"],
    [507, "full", "capacity.exceeded"],
    [595, "No route to host", "node.unavailable"],
  ])("%i %s is %s", async (status, message, code) => {
    const err = await responseError(
      answer(status, message, `{"data":null,"message":"${message}\\n"}`),
      asked,
    );
    expect(err).toMatchObject({ code, message, pveStatus: status });
  });

  test("keeps the texts per parameter", async () => {
    const body = JSON.stringify({
      data: null,
      message: "Parameter verification failed.\n",
      errors: { a: "bad\n" },
    });
    expect((await responseError(answer(400, "x", body), asked)).errors).toEqual({ a: "bad" });
  });

  test("falls back to the reason phrase, then the body, then the number", async () => {
    expect((await responseError(answer(500, "why", ""), asked)).message).toBe("why");
    expect((await responseError(answer(501, "", "plain text"), asked)).message).toBe("plain text");
    expect((await responseError(answer(501, "", "{broken"), asked)).message).toBe("{broken");
    expect((await responseError(answer(502, "", ""), asked)).message).toBe("HTTP 502");
  });
});

describe("problem bodies", () => {
  const type = "application/problem+json";
  test("carry our code, the detail and the errors as map or list", async () => {
    const map = JSON.stringify({
      code: "store.full",
      title: "T",
      detail: "D",
      data: { x: 1 },
      errors: { "/spec": "no" },
    });
    expect(await responseError(answer(507, "", map, type), asked)).toMatchObject({
      code: "store.full",
      message: "D",
      data: { x: 1, status: 507 },
      errors: { "/spec": "no" },
    });
    const list = JSON.stringify({ title: "T", errors: [{ path: "/spec/x", message: "no" }, 3, { path: 1 }] });
    expect(await responseError(answer(404, "", list, type), asked)).toMatchObject({
      code: "object.not_found",
      message: "T",
      errors: { "/spec/x": "no" },
    });
  });
});
