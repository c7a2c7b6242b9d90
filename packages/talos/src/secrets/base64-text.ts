// Texts as Talos' and Kubernetes' files hold certificates and keys.

export const toBase64 = (text: string): string => Buffer.from(text, "utf8").toString("base64");

export const fromBase64 = (text: string): string => Buffer.from(text, "base64").toString("utf8");
