import { expect, test } from "vitest";
import { signRequest } from "./sign-request.ts";

/** The example of AWS' own documentation of signatures: GET Bucket (List Objects). */
test("a request is signed as the documentation of AWS signs it", () => {
  const headers = signRequest(
    {
      method: "GET",
      url: new URL("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J"),
      region: "us-east-1",
      body: new Uint8Array(),
      now: Date.UTC(2013, 4, 24),
    },
    { accessKey: "AKIAIOSFODNN7EXAMPLE", secretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" },
  );
  expect(headers["authorization"]).toMatch(
    /Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7$/,
  );
  expect(headers["x-amz-date"]).toBe("20130524T000000Z");
});
