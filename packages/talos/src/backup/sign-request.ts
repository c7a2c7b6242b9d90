// Signature version 4 of AWS, as every S3 takes it. Secrets are keys of hashes only; nothing of them is sent.
import { createHash, createHmac } from "node:crypto";

export interface S3Keys {
  readonly accessKey: string;
  readonly secretKey: string;
}

export interface UnsignedRequest {
  readonly method: string;
  readonly url: URL;
  readonly region: string;
  readonly body: Uint8Array;
  readonly now: number;
}

/** Headers that a request must carry. */
export function signRequest(
  { method, url, region, body, now }: UnsignedRequest,
  { accessKey, secretKey }: S3Keys,
): Readonly<Record<string, string>> {
  const stamp = new Date(now).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const day = stamp.slice(0, 8);
  const digest = sha256(body);
  const signed = { host: url.host, "x-amz-content-sha256": digest, "x-amz-date": stamp };
  const names = Object.keys(signed).join(";");
  const query = [...url.searchParams]
    .map(([key, value]) => `${encoded(key)}=${encoded(value)}`)
    .toSorted((a, b) => (a < b ? -1 : 1))
    .join("&");
  const request = [
    method,
    url.pathname,
    query,
    ...Object.entries(signed).map(([name, value]) => `${name}:${value}`),
    "",
    names,
    digest,
  ].join("\n");
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", stamp, scope, sha256(Buffer.from(request, "utf8"))].join("\n");
  const key = [day, region, "s3", "aws4_request"].reduce<Buffer>(
    (last, part) => hmac(last, part),
    Buffer.from(`AWS4${secretKey}`, "utf8"),
  );
  const signature = hmac(key, text).toString("hex");
  const { host: _own, ...headers } = signed;
  return {
    ...headers,
    authorization: `AWS4-HMAC-SHA256 Credential=${accessKey}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const hmac = (key: Buffer, text: string): Buffer => createHmac("sha256", key).update(text, "utf8").digest();

/** Stricter than encodeURIComponent, as signatures have it. */
const encoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
