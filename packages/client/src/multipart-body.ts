// multipart/form-data with one large file, as a body of known length that is read while it is sent.
import type { StreamBody } from "./transport.ts";

export interface UploadForm {
  /** Sent first, in this order. */
  readonly fields: Readonly<Record<string, string>>;
  readonly file: {
    /** The form's field. */
    readonly field: string;
    readonly name: string;
    readonly size: number;
    open(): AsyncIterable<Uint8Array>;
  };
}

export function multipartBody(form: UploadForm): { readonly contentType: string; readonly body: StreamBody } {
  const boundary = `gpve-${crypto.randomUUID()}`;
  const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
  const head = Object.entries(form.fields)
    .map(
      ([name, value]) =>
        `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
    )
    .join("");
  const { field, name, size } = form.file;
  const shown = name.replaceAll(/["\r\n]/g, "_");
  const before = encode(
    `${head}--${boundary}\r\ncontent-disposition: form-data; name="${field}"; filename="${shown}"\r\n` +
      "content-type: application/octet-stream\r\n\r\n",
  );
  const after = encode(`\r\n--${boundary}--\r\n`);
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: {
      length: before.length + size + after.length,
      async *open() {
        yield before;
        yield* form.file.open();
        yield after;
      },
    },
  };
}
