import { given } from "@gpve/contracts/given.ts";
import { Code, ConnectError } from "@connectrpc/connect";
import { AppError, errorCodes, type ErrorCode } from "@gpve/contracts/errors.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { appErrorOf, toConnectError } from "./app-error.ts";

describe("AppError over gRPC", () => {
  test("comes back as it was thrown", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...(Object.keys(errorCodes) as ErrorCode[])),
        fc.string(),
        fc.option(fc.dictionary(fc.string({ minLength: 1 }), fc.string()), { nil: undefined }),
        fc.option(fc.integer({ min: 400, max: 599 }), { nil: undefined }),
        (code, message, errors, pveStatus) => {
          const sent = new AppError(code, message, {
            data: { vmid: 100 },
            ...given({ errors, pveStatus }),
          });
          const wire = new ConnectError(
            message,
            Code.Internal,
            undefined,
            toConnectError(sent).details as never,
          );
          const back = appErrorOf(wire);
          expect(back?.code).toBe(code);
          expect(back?.message).toBe(message);
          expect({ ...back?.errors }).toEqual({ ...errors });
          expect(back?.errors === undefined).toBe(errors === undefined);
          expect(back?.pveStatus).toBe(pveStatus);
          expect(back?.data).toEqual({ vmid: 100 });
        },
      ),
    );
  });

  test("wraps unknown failures as internal errors and keeps gRPC's own", () => {
    expect(appErrorOf(toConnectError(new TypeError("oops")))?.code).toBe("internal.error");
    const own = new ConnectError("gone", Code.Unavailable);
    expect(toConnectError(own)).toBe(own);
    expect(appErrorOf(own)).toBeUndefined();
    expect(appErrorOf(new Error("x"))).toBeUndefined();
  });

  test("reads codes and data of the future carefully", () => {
    const wire = toConnectError(new AppError("internal.error", "x"));
    const detail = wire.details[0] as unknown as { value: { code: string; dataJson: string } };
    detail.value.code = "future.code";
    detail.value.dataJson = "not json";
    expect(appErrorOf(wire)).toMatchObject({ code: "internal.error", data: {} });
    detail.value.dataJson = "[1]";
    expect(appErrorOf(wire)?.data).toEqual({});
  });
});
