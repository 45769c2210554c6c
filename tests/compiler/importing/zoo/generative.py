"""Networks that draw, code or compare images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm


class Discriminator(nn.Module):
    """Spectral and weight norm are parametrizations: the weight is computed when it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = spectral_norm(nn.Conv2d(1, 4, 3, 2, 1))
        self.conv2 = weight_norm(nn.Conv2d(4, 8, 3, 2, 1))
        self.fc = nn.Linear(8 * 2 * 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.conv1(x), 0.2)
        x = F.leaky_relu(self.conv2(x), 0.2)
        out: Tensor = self.fc(x.view(x.shape[0], -1)).squeeze(1)
        return out


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.init_size = 4
        self.l1 = nn.Sequential(nn.Linear(6, 8 * self.init_size**2))
        self.conv_blocks = nn.Sequential(
            nn.BatchNorm2d(8), nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 3, stride=1, padding=1),
            nn.BatchNorm2d(4, 0.8), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(4, 1, 3, padding=1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, z: Tensor) -> Tensor:
        out = self.l1(z)
        out = out.view(out.shape[0], 8, self.init_size, self.init_size)
        image: Tensor = self.conv_blocks(out)
        return image


class GAN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        fake = self.generator(z)
        return fake, self.discriminator(fake)


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(36, 16)
        self.fc21 = nn.Linear(16, 4)
        self.fc22 = nn.Linear(16, 4)
        self.fc3 = nn.Linear(4, 16)
        self.fc4 = nn.Linear(16, 36)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mu, logvar = self.encode(x.view(-1, 36))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


class VQVAE(nn.Module):
    """The nearest entry of a codebook, and gradients that go straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv2d(1, 4, 3, 2, 1)
        self.codebook = nn.Embedding(6, 4)
        self.codebook.weight.data.uniform_(-1 / 6, 1 / 6)
        self.decoder = nn.ConvTranspose2d(4, 1, 4, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encoder(x).permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, 4)
        distances = (
            torch.sum(flat**2, dim=1, keepdim=True)
            + torch.sum(self.codebook.weight**2, dim=1)
            - 2 * torch.matmul(flat, self.codebook.weight.t())
        )
        index = torch.argmin(distances, dim=1).unsqueeze(1)
        one_hot = torch.zeros(index.shape[0], 6, device=x.device)
        one_hot.scatter_(1, index, 1)
        quantized = torch.matmul(one_hot, self.codebook.weight).view(z.shape)
        loss = F.mse_loss(quantized, z.detach()) + 0.25 * F.mse_loss(quantized.detach(), z)
        quantized = z + (quantized - z).detach()
        return loss, self.decoder(quantized.permute(0, 3, 1, 2).contiguous())


class TiedAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(12, 5)
        self.bias = nn.Parameter(torch.zeros(12))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.sigmoid(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 4))

    def embed(self, x: Tensor) -> Tensor:
        return F.normalize(self.net(x), dim=-1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("nd,nd->n", self.embed(a), self.embed(b))


class TimestepEmbedding(nn.Module):
    freqs: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.register_buffer("freqs", torch.exp(-9.2 * torch.arange(half) / half), persistent=False)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, t: Tensor) -> Tensor:
        args = t[:, None].float() * self.freqs[None]
        out: Tensor = self.mlp(torch.cat([torch.cos(args), torch.sin(args)], dim=-1))
        return out


class Diffusion(nn.Module):
    """Scale and shift from the time step, group norm, and attention over pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.time = TimestepEmbedding(8)
        self.conv_in = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.film = nn.Linear(8, 16)
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.conv_out = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor, *, scale: float = 1.0) -> Tensor:
        h = self.conv_in(x)
        shift, gain = self.film(self.time(t))[:, :, None, None].chunk(2, dim=1)
        h = F.silu(self.norm(h) * (1 + gain) + shift)
        b, c, *size = h.shape
        flat = h.reshape(b, c, -1).transpose(1, 2)
        out, _ = self.attn(flat, flat, flat)
        h = h + out.transpose(1, 2).reshape(b, c, *size) * scale
        result: Tensor = self.conv_out(h)
        return result
