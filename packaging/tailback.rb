# Homebrew formula. `make release` fills in the address, the version and the checksums.
class Tailback < Formula
  desc "Find where packets wait on an Internet link"
  homepage "@URL@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "@URL@/tailback-x86_64.tar.gz"
    sha256 "@SHA256_x86_64@"
  end
  on_arm do
    url "@URL@/tailback-aarch64.tar.gz"
    sha256 "@SHA256_aarch64@"
  end

  def install
    bin.install "tailback"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/tailback.bash" => "tailback"
    zsh_completion.install "completions/_tailback"
    fish_completion.install "completions/tailback.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tailback --version")
  end
end
