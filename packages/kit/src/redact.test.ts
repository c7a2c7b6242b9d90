import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isSecretName, redact, redactArgs, REDACTED, redactText } from "./redact.ts";

const secretNames = [
  "password",
  "cipassword",
  "new-password",
  "confirmation-password",
  "token",
  "ticket",
  "secret",
  "client_secret",
  "Authorization",
  "cookie",
  "Set-Cookie",
  "PVEAuthCookie",
  "CSRFPreventionToken",
  "encryption-key",
  "private_key",
  "apiKey",
  "keyring",
  "otp",
];

describe("names", () => {
  test.each(secretNames)("%s is a secret", (name) => expect(isSecretName(name)).toBe(true));
  test.each(["tokenid", "userid", "sshkeys", "comment", "bypass", "tokens", "passthrough"])(
    "%s is not",
    (name) => expect(isSecretName(name)).toBe(false),
  );
});

describe("values", () => {
  test("secrets are hidden at any depth and the rest stays", () => {
    const shown = redact({
      userid: "joe@pve",
      password: "hunter2",
      nested: [{ headers: { authorization: "Bearer abc", accept: "*/*" } }],
      map: new Map([["ticket", "PVE:x"]]),
    });
    expect(shown).toEqual({
      userid: "joe@pve",
      password: REDACTED,
      nested: [{ headers: { authorization: REDACTED, accept: "*/*" } }],
      map: { ticket: REDACTED },
    });
  });

  test("whole objects and numbers under a secret name are hidden", () => {
    expect(redact({ secret: { a: 1 }, otp: 123456 })).toEqual({ secret: REDACTED, otp: REDACTED });
  });

  test("that nothing was given stays visible", () => {
    expect(redact({ password: undefined, token: true, ticket: "", cookie: null })).toEqual({
      password: undefined,
      token: true,
      ticket: "",
      cookie: null,
    });
  });

  test("further names of one call are hidden too", () => {
    expect(redact({ value: "123", type: "totp" }, { also: new Set(["value"]) })).toEqual({
      value: REDACTED,
      type: "totp",
    });
  });

  test("errors keep their chain and lose their secrets", () => {
    const cause = Object.assign(new Error("login with password=abc failed"), { code: "EAUTH", token: "xyz" });
    const shown = redact({ err: new Error("outer", { cause }) }) as {
      err: { type: string; cause: Record<string, unknown> };
    };
    expect(shown.err.type).toBe("Error");
    expect(shown.err.cause).toMatchObject({
      code: "EAUTH",
      token: REDACTED,
      message: `login with password=${REDACTED} failed`,
    });
    expect(JSON.stringify(shown)).not.toContain("abc");
  });

  test("cycles, depth, bytes and odd values do not break a line", () => {
    const loop: Record<string, unknown> = {};
    loop["self"] = loop;
    let deep: Record<string, unknown> = { end: true };
    for (let i = 0; i < 12; i++) deep = { deep };
    const shown = redact({
      loop,
      deep,
      bytes: new Uint8Array(5),
      big: 10n,
      call: () => 1,
      date: new Date(0),
      never: new Date(Number.NaN),
      url: new URL("https://h/?ticket=abc&x=1"),
    }) as Record<string, unknown>;
    expect(shown["loop"]).toEqual({ self: "[circular]" });
    expect(JSON.stringify(shown["deep"])).toContain("[deep]");
    expect(shown).toMatchObject({
      bytes: "[5 bytes]",
      big: "10",
      date: "1970-01-01T00:00:00.000Z",
      never: null,
      url: `https://h/?ticket=${REDACTED}&x=1`,
    });
    expect(shown["call"]).toBeUndefined();
  });

  test("a field called __proto__ stays a field", () => {
    const shown = redact(JSON.parse('{"__proto__":{"password":"x"}}')) as object;
    expect(Object.keys(shown)).toEqual(["__proto__"]);
    expect(JSON.stringify(shown)).toBe(`{"__proto__":{"password":"${REDACTED}"}}`);
  });

  test("no secret value survives, wherever it is put", () => {
    const secret = fc.stringMatching(/^S3[A-Z0-9]{8,20}Z$/);
    const place = fc.constantFrom<((name: string, value: string) => unknown)[]>(
      (name, value) => ({ a: [{ [name]: value }] }),
      (name, value) => `GET /api2/json/x?y=1&${name}=${value}&z=2`,
      (name, value) => ({ body: JSON.stringify({ [name]: value, b: 1 }) }),
      (name, value) => new Error(`bad ${name}=${value}`),
      (name, value) => new Map([["x", { [name]: [value] }]]),
    );
    fc.assert(
      fc.property(fc.constantFrom(...secretNames), secret, place, (name, value, put) => {
        expect(JSON.stringify(redact({ it: put(name, value) }))).not.toContain(value);
      }),
    );
  });
});

describe("text", () => {
  test.each([
    ["no secret here", "no secret here"],
    ["took 3 ms: fine", "took 3 ms: fine"],
    ["/x?pass%77ord=abc&node=n1", `/x?pass%77ord=${REDACTED}&node=n1`],
    ["Authorization: PVEAPIToken=root@pam!up=0-1-2", `Authorization: ${REDACTED}`],
    ["got Bearer abcdefghijk now", `got Bearer ${REDACTED} now`],
    ["PVEAPIToken=root@pam!up=aa-bb", `PVEAPIToken=${REDACTED}`],
    ["ticket PVE:root@pam:65A1B2C3::c2lnbg== used", `ticket ${REDACTED} used`],
    ["ticket PVEVNC:65A1B2C3::c2lnbg== used", `ticket ${REDACTED} used`],
    ["http://u:hunter2@host/x", `http://u:${REDACTED}@host/x`],
    ['{"execute":"set_password","password":"a\\"b"}', `{"execute":"set_password","password":"${REDACTED}"}`],
    ["server=1.2.3.4,password=x,port=5", `server=1.2.3.4,password=${REDACTED},port=5`],
  ])("%s", (before, after) => expect(redactText(before)).toBe(after));

  test("private keys are cut out, encoded ones too", () => {
    const key = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----";
    expect(redactText(`k ${key} e`)).toBe(`k ${REDACTED} e`);
    expect(redactText("-----BEGIN%20PRIVATE%20KEY-----AAAA")).toBe(REDACTED);
  });

  test("text of any shape is handled, and twice is the same as once", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 300 }), (text) => {
        const once = redactText(text);
        expect(redactText(once)).toBe(once);
      }),
    );
  });
});

test("command lines lose the values of secret options", () => {
  expect(
    redactArgs(["login", "--password", "x", "--token=y", "-object", "secret,id=s0,data=zz,format=raw", "-v"]),
  ).toEqual([
    "login",
    "--password",
    REDACTED,
    `--token=${REDACTED}`,
    "-object",
    `secret,id=s0,data=${REDACTED},format=raw`,
    "-v",
  ]);
  expect(redactArgs(["--password", "--verbose"])).toEqual(["--password", "--verbose"]);
});

test("a bare key is a secret, public keys are not, and escaped names are read", () => {
  expect(["key", "pass%77ord", "client-key"].map(isSecretName)).toEqual([true, true, true]);
  expect(["sshkeys", "keyboard", "pubkey"].map(isSecretName)).toEqual([false, false, false]);
});
